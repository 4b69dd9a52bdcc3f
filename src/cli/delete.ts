import type { Command } from "commander";
import { assertConfirmed } from "./arguments.ts";
import { type ConnectionOptions, withRepo } from "./connection.ts";
import { context } from "./interruption.ts";
import { print, printJson, visible } from "./output.ts";

interface DeleteOptions extends ConnectionOptions {
  confirm: string;
  json?: true;
}

export function addDelete(program: Command): void {
  program
    .command("delete")
    .description("delete a session with everything in it, its usage too; its forks stay")
    .argument("<id>", "the whole id of the session")
    .requiredOption("--confirm <id>", "the id again")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Programs that have the session open cannot write it any more. There is no way back but a backup.

Examples:
  pi-sessions delete 019ad920-7f40-7c3e-8a11-5d0c9b7e2f64 --confirm 019ad920-7f40-7c3e-8a11-5d0c9b7e2f64`,
    )
    .action(async (id: string, _options, command: Command) => {
      const options = command.optsWithGlobals<DeleteOptions>();
      assertConfirmed(id, options.confirm);
      await withRepo(options, (repo) => repo.delete({ id }, context));
      if (options.json) printJson({ deleted: id });
      else print(`Deleted ${visible(id)}.`);
    });
}
