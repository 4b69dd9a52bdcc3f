/**
 * Imports in a process of its own, which kills itself when progress was reported for the given time; prints how often
 * it was: node killed-import.ts connectionString schema killAt path…
 */

import { BACKGROUND_CONTEXT } from "../../src/contract/context.ts";
import { openDatabase } from "../../src/postgres/database.ts";
import { importAll } from "../support/import-all.ts";

const [connectionString, schema, killAt, ...paths] = process.argv.slice(2) as [string, string, string];
const database = await openDatabase({ connectionString, schema });
const { importer } = await database.repo("default");
let reports = 0;
const onProgress = () => {
  reports++;
  if (reports === Number(killAt)) process.kill(process.pid, "SIGKILL");
};
await importAll(importer, paths, { jobs: 3, onProgress }, BACKGROUND_CONTEXT);
await database.close();
console.log(reports);
