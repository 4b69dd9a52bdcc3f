import { once } from "node:events";
import type { Command } from "commander";
import { type ConnectionOptions, connect } from "./connection.ts";
import { print, tell } from "./output.ts";

export function addServe(program: Command): void {
  program
    .command("serve")
    .description("keep the embedded server running until Ctrl-C, for other programs")
    .addHelpText(
      "after",
      `
Prints the connection string.

Examples:
  pi-sessions --data-dir .data serve`,
    )
    .action(async (_options, command: Command) => {
      await using connection = await connect(command.optsWithGlobals<ConnectionOptions>());
      print(connection.connectionString);
      tell("Running. Ctrl-C stops the server.");
      await Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
    });
}
