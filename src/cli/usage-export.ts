import type { Command } from "commander";
import type { ConnectionOptions } from "./connection.ts";
import { connect } from "./connection.ts";
import { CursorFile } from "./cursor-file.ts";
import { EXIT } from "./exit-codes.ts";
import { context } from "./interruption.ts";
import { formatCount, tell } from "./output.ts";
import { ALL_TENANTS, scopeOf } from "./usage-sums.ts";

interface ExportOptions extends ConnectionOptions {
  allTenants?: true;
  sinceCursorFile?: string;
}

/** So many rows at most are printed again after the command was killed. */
const ROWS_PER_CURSOR = 1_000;

export function addUsageExport(usage: Command): void {
  usage
    .command("export")
    .description("print the rows of the ledger, one JSON object per line, each once")
    .option(...ALL_TENANTS)
    .option("--since-cursor-file <file>", "go on after what the last run with this file printed")
    .addHelpText(
      "after",
      `
For billing systems. The cursor is written after the rows that it stands for; if the command is killed in between, the
next run prints them again: tenantId, sessionId and id together tell a row. Print into a file: what is in a pipe when
its reader dies is lost, and the cursor may be past it. The exit code is 1 if a reader did not take all rows.

Examples:
  pi-sessions usage export > ledger.jsonl
  pi-sessions usage export --all-tenants --since-cursor-file billing.cursor >> ledger.jsonl`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<ExportOptions>();
      const { sinceCursorFile: path } = options;
      const file = path === undefined ? undefined : await CursorFile.open(path);
      const after = file?.cursor;
      await using connection = await connect(options);
      const changes = connection.database.usage.changes(
        { ...scopeOf(options), ...(after === undefined ? {} : { after }) },
        context,
      );
      // Stays so if the reader stops early: it has not got everything.
      process.exitCode = EXIT.foundFailures;
      let rows = 0;
      let cursor: string | undefined;
      for await (const change of changes) {
        await printLine(JSON.stringify(change));
        cursor = change.cursor;
        rows++;
        if (rows % ROWS_PER_CURSOR === 0) await file?.write(cursor);
      }
      if (cursor !== undefined) await file?.write(cursor);
      process.exitCode = EXIT.done;
      tell(`${formatCount(rows)} rows.`);
    });
}

/** Resolves once the reader's side has it. */
function printLine(line: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  process.stdout.write(`${line}\n`, (error) => (error ? reject(error) : resolve()));
  return promise;
}
