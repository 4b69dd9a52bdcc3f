import { once } from "node:events";
import type { Command } from "commander";
import pg from "pg";
import { startEmbeddedServer } from "../embedded/server.ts";
import { type ConnectionOptions, embeddedDataDir } from "./connection.ts";
import { EXIT } from "./exit-codes.ts";
import { print, tell } from "./output.ts";

export function addServe(program: Command): void {
  program
    .command("serve")
    .description("keep the embedded server running until Ctrl-C, for other programs")
    .addHelpText(
      "after",
      `
Prints the connection string. Always uses the embedded server, whatever --database-url or DATABASE_URL say. Ends with
exit code 3 when the server goes away.

Examples:
  pi-sessions serve
  pi-sessions --data-dir .data serve`,
    )
    .action(async (_options, command: Command) => {
      await serve(embeddedDataDir(command.optsWithGlobals<ConnectionOptions>()));
    });
}

async function serve(dataDir: string): Promise<void> {
  const server = await startEmbeddedServer({ dataDir });
  // An open connection keeps this process alive, and tells it when the server has ended.
  const client = new pg.Client({
    connectionString: server.connectionString,
    application_name: "pi-sessions serve",
  });
  client.on("error", () => {});
  try {
    await client.connect();
    const gone = new Promise<"gone">((resolve) => client.once("end", () => resolve("gone")));
    // Listened for before the line that says it is ready: whoever reads that may end it at once.
    const ending = Promise.race([once(process, "SIGINT"), once(process, "SIGTERM"), gone]);
    print(server.connectionString);
    tell(
      server.attached
        ? "Another command runs this server. Ctrl-C ends this one only."
        : "Running. Ctrl-C stops the server.",
    );
    if ((await ending) === "gone") {
      tell("error: The server has ended: start it again.");
      process.exitCode = EXIT.database;
    }
  } finally {
    await client.end().catch(() => {});
    await server.stop();
  }
}
