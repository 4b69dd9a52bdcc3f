/**
 * Eight writers on three sessions, while connections are cut, backends killed, and the server crashed twice: a short
 * form of scripts/chaos, on a server of its own. CHAOS_SEED repeats the choices of a run, CHAOS_POSTGRES_BIN names
 * the programs of another PostgreSQL.
 */
import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { runChaos } from "./chaos.ts";

const SEED = Number(process.env["CHAOS_SEED"] ?? randomInt(2 ** 31));
const BINARIES = process.env["CHAOS_POSTGRES_BIN"];

test("nothing acknowledged is lost, nothing happens twice, nothing refused happens, whatever dies", async () => {
  console.log(`Chaos with CHAOS_SEED=${SEED}`);
  const { counts, violations } = await runChaos({
    seed: SEED,
    milliseconds: 12_000,
    serverCrashes: 2,
    writerKills: 2,
    ...(BINARIES === undefined ? {} : { binaries: BINARIES }),
  });
  console.log(
    Object.entries(counts)
      .map(([what, count]) => `${what} ${count}`)
      .join(", "),
  );
  expect(violations, `with CHAOS_SEED=${SEED}`).toEqual([]);
  expect(counts).toMatchObject({ serverCrashes: 2, writersKilled: 2 });
  // Else nothing was tried that could go wrong.
  expect(counts.acknowledged).toBeGreaterThan(50);
  expect(counts.connectionsCut).toBeGreaterThan(5);
  expect(counts.backendsKilled).toBeGreaterThan(0);
}, 180_000);
