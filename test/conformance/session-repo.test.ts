import { randomUUID } from "node:crypto";
import * as testing from "@earendil-works/pi-agent-core/harness/session/testing";
import { afterAll, beforeAll, describe, test } from "vitest";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await openTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** Each case expects a repository without sessions, so each gets a tenant. */
async function emptyRepo(): Promise<PgSessionRepo> {
  const tenant = randomUUID();
  await database.database.tenants.create({ slug: tenant });
  return database.database.repo(tenant);
}

// Every group that the suite exports; a new one in a later release of pi shows up here by itself.
const groups = Object.entries(testing).filter(([name]) => /^createSessionRepo\w*Conformance$/.test(name)) as [
  string,
  (factory: () => Promise<PgSessionRepo>) => readonly testing.ConformanceCase[],
][];

for (const [group, createCases] of groups) {
  describe(`pi's conformance suite: ${group}`, () => {
    for (const { group: topic, name, run } of createCases(emptyRepo)) test(`${topic}: ${name}`, run);
  });
}
