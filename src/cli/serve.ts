import { once } from "node:events";
import type { Command } from "commander";
import { type ConnectionOptions, connectTo, embeddedSource } from "./connection.ts";
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
      const options = command.optsWithGlobals<ConnectionOptions>();
      await using connection = await connectTo(embeddedSource(options), options);
      print(connection.connectionString);
      tell("Running. Ctrl-C ends this command, and the server if it started it.");
      // Neither the server nor a listener for signals keeps a process alive.
      const alive = setInterval(() => {}, 60_000);
      await Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
      clearInterval(alive);
    });
}
