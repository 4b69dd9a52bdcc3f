import { type ImportReport, importArchives, reportOf } from "../../src/archive/index.ts";

/** Imports to the end. @returns what became of all files */
export function importAll(...args: Parameters<typeof importArchives>): Promise<ImportReport> {
  return reportOf(importArchives(...args));
}
