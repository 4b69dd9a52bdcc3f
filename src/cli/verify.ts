import type { Command } from "commander";
import type { Finding, VerifyReport } from "../postgres/verify.ts";
import { type ConnectionOptions, withRepo } from "./connection.ts";
import { EXIT } from "./exit-codes.ts";
import { context } from "./interruption.ts";
import { type Column, formatCount, jsonText, oneLine, print, printTable } from "./output.ts";
import { resolveSessionId } from "./session-id.ts";

interface VerifyCommandOptions extends ConnectionOptions {
  session?: string;
  repair?: true;
  json?: true;
}

export function addVerify(program: Command): void {
  program
    .command("verify")
    .description("look for inconsistencies in stored sessions; changes nothing without --repair")
    .option("--session <id>", "only this session; a unique prefix of its id will do")
    .option("--repair", "rebuild what follows from other rows: totals, names for listing, sizes, runs")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Programs may go on writing in the meantime. Entries, usage rows and values are never changed. Runs and sizes of entries
can be rebuilt only by the role that owns the tables.

Examples:
  pi-sessions verify
  pi-sessions verify --tenant acme --session 019ad920
  pi-sessions verify --repair`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<VerifyCommandOptions>();
      const { session, repair = false, json = false } = options;
      const output = json ? new JsonOutput() : new TableOutput();
      const report = await withRepo(options, async (repo) =>
        repo.verify(
          {
            ...(session === undefined ? {} : { sessionId: await resolveSessionId(repo, session) }),
            repair,
            onFinding: (finding) => output.add(finding),
          },
          context,
        ),
      );
      output.end(report);
      if (report.findings > 0) process.exitCode = EXIT.foundFailures;
    });
}

/** Findings as they come, so that it does not matter how many there are. */
interface Output {
  add(finding: Finding): void;
  end(report: VerifyReport): void;
}

const ROWS_PER_TABLE = 500;

class TableOutput implements Output {
  #rows: Finding[] = [];
  #unrepaired = 0;
  #repairable = 0;

  add(finding: Finding): void {
    this.#rows.push(finding);
    if (!finding.repaired) this.#unrepaired++;
    if (!finding.repaired && finding.repairable) this.#repairable++;
    if (this.#rows.length === ROWS_PER_TABLE) this.#flush();
  }

  end({ sessions, findings, repaired }: VerifyReport): void {
    this.#flush();
    if (findings > 0) print();
    const verified = `Verified ${counted(sessions, "session")}`;
    if (findings === 0) {
      print(`${verified}: all is well.`);
      return;
    }
    print(`${verified}: ${counted(findings, "finding")}, ${formatCount(repaired)} repaired.`);
    if (this.#repairable > 0) print(`--repair rebuilds ${formatCount(this.#repairable)} of them.`);
    const lasting = this.#unrepaired - this.#repairable;
    if (lasting > 0)
      print(`${formatCount(lasting)} cannot be rebuilt: restore those sessions from a backup.`);
  }

  #flush(): void {
    if (this.#rows.length === 0) return;
    printTable(COLUMNS, this.#rows);
    this.#rows = [];
  }
}

const COLUMNS: Column<Finding>[] = [
  { head: "CHECK", cell: ({ check }) => check },
  { head: "SESSION", cell: ({ sessionId }) => oneLine(sessionId ?? "–", 256) },
  { head: "WHAT", cell: ({ what, repaired }) => oneLine(repaired ? `${what} (repaired)` : what, 200) },
];

/** As `printJson` would print `{ found, report }`. */
class JsonOutput implements Output {
  #isFirst = true;

  add(finding: Finding): void {
    process.stdout.write(this.#isFirst ? '{\n  "found": [\n' : ",\n");
    process.stdout.write(indented(jsonText(finding), 4));
    this.#isFirst = false;
  }

  end(report: VerifyReport): void {
    print(this.#isFirst ? '{\n  "found": [],' : "\n  ],");
    print(`  "report": ${indented(jsonText(report), 2).trimStart()}\n}`);
  }
}

function indented(text: string, columns: number): string {
  return text.replaceAll(/^/gm, " ".repeat(columns));
}

function counted(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}
