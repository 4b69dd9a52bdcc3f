import { createStorageConformance } from "@earendil-works/pi-agent-core/harness/session/testing";
import { afterAll, beforeAll, describe, test } from "vitest";
import { BACKGROUND_CONTEXT } from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
let repo: PgSessionRepo;

beforeAll(async () => {
  database = await openTestDatabase();
  repo = await database.database.repo("default");
});
afterAll(() => database[Symbol.asyncDispose]());

describe("pi's conformance suite for a storage", () => {
  const cases = createStorageConformance(async () => {
    const storage = await repo.createStorage({}, BACKGROUND_CONTEXT);
    return { storage, [Symbol.asyncDispose]: () => storage.close(BACKGROUND_CONTEXT) };
  });
  for (const { group, name, run } of cases) test(`${group}: ${name}`, run);
});
