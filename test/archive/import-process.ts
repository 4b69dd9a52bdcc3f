/**
 * Imports files in a process of their own and prints the outcomes and the most memory that it took:
 * node import-process.ts connectionString schema path…
 */

import { BACKGROUND_CONTEXT } from "../../src/contract/context.ts";
import { openDatabase } from "../../src/postgres/database.ts";
import { importAll } from "../support/import-all.ts";

const [connectionString, schema, ...paths] = process.argv.slice(2) as [string, string, ...string[]];
const database = await openDatabase({ connectionString, schema });
const { importer } = await database.repo("default");
const startedAt = performance.now();
const { files } = await importAll(importer, paths, {}, BACKGROUND_CONTEXT);
const seconds = (performance.now() - startedAt) / 1000;
await database.close();
console.log(JSON.stringify({ files, seconds, peakBytes: process.resourceUsage().maxRSS * 1024 }));
