import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Pool, type PoolClient, type PoolConfig } from "pg";
import { describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context, withAbortSignal } from "../../src/contract/context.ts";
import { type Connection, guardConnection } from "../../src/postgres/connection.ts";
import { openDatabase } from "../../src/postgres/database.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import { tenantSetting } from "../../src/postgres/tenant-setting.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { hasPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";

const ways = ["directly", "through PgBouncer in transaction mode"] as const;
const sql = (text: string, ...parameters: unknown[]) => ({ sql: text, parameters });
const TENANT = tenantOf("new");
const BEGIN = sql(`start transaction; ${tenantSetting(TENANT.tenantId)}`);
const COMMIT = sql("commit");

for (const way of ways) {
  const isSkipped = way !== "directly" && !hasPgBouncer;
  describe.skipIf(isSkipped)(isSkipped ? `${way} (pgbouncer is not installed)` : way, () => {
    test("statements are sent together, without waiting for an answer", async () => {
      await using line = await openLine(way);
      const { connection, traffic } = await line.connect();
      const outcomes = await connection.send([BEGIN, sql("select $1::int as a", 1), sql("select 2"), COMMIT]);
      expect(outcomes.map(({ status }) => status)).toEqual(Array(4).fill("fulfilled"));
      expect(rowsOf(outcomes[1])).toEqual([{ a: 1 }]);
      expect(traffic).toEqual([...Array(4).fill("sent"), ...Array(4).fill("answered")]);
      connection.release();
    });

    test("an error in the middle undoes the transaction and spoils nothing behind it", async () => {
      await using line = await openLine(way);
      const { connection } = await line.connect();
      const tenants = `"${line.at.schema}".tenants`;
      const { tenantId, slug } = TENANT;
      const insertion = sql(`insert into ${tenants} (tenant_id, slug) values ($1, $2)`, tenantId, slug);
      for (let time = 0; time < 3; time++) {
        const outcomes = await connection.send([
          BEGIN,
          insertion,
          sql("select 1 / $1::int", 0),
          sql("select $1::int", 1),
          sql("select no_such_function($1::int)", 1),
          COMMIT,
        ]);
        expect(outcomes.map(reasonOf)).toEqual([undefined, undefined, "22012", "25P02", "25P02", undefined]);
        const [left] = await connection.send([sql("select current_setting('pi_sessions.tenant') as tenant")]);
        expect(rowsOf(left)).toEqual([{ tenant: "" }]);
        const [, found] = await connection.send([BEGIN, sql(`select slug from ${tenants}`), COMMIT]);
        expect(rowsOf(found)).toEqual([]);
      }
      connection.release();
    });

    test("ten megabytes go and come at once, again and again", async () => {
      await using line = await openLine(way);
      const { connection } = await line.connect();
      const large = "x".repeat(10_000_000);
      const statements = Array.from({ length: 4 }, () => [
        sql("select repeat($1::text, 10000000) as large", "y"),
        sql("select length($1::text) as length, $1::text as large", large),
      ]).flat();
      const outcomes = await connection.send([BEGIN, ...statements, COMMIT]);
      const results = outcomes.slice(1, -1).flatMap(rowsOf) as { length?: number; large: string }[];
      expect(results.map((row) => row.length ?? row.large.length)).toEqual(Array(8).fill(10_000_000));
      expect(results.map((row) => row.large[0]).join("")).toBe("yxyxyxyx");
      connection.release();
    });

    test("a connection that is killed in the middle fails what was sent, and the pool gets another one", async () => {
      await using line = await openLine(way);
      const suicide = sql("select pg_terminate_backend(pg_backend_pid())");
      for (const statements of [
        [BEGIN, suicide, sql("select $1::int", 1), COMMIT],
        [BEGIN, sql("select $1::int", 1), suicide],
        [suicide],
      ]) {
        const { connection } = await line.connect();
        const outcomes = await connection.send(statements);
        const killed = statements.indexOf(suicide);
        // A server that ends with something unread resets the connection, and an answer on its way may be lost.
        const answered = outcomes.filter(({ status }) => status === "fulfilled").length;
        expect(answered).toBeLessThanOrEqual(killed);
        expect(outcomes.map(({ status }) => status)).toEqual(
          statements.map((_, index) => (index < answered ? "fulfilled" : "rejected")),
        );
        connection.release();
        const next = await line.connect();
        expect(rowsOf((await next.connection.send([sql("select $1::int as a", 1)]))[0])).toEqual([{ a: 1 }]);
        next.connection.release();
      }
    });

    test("cancelling stops what runs, and nothing that comes after", async () => {
      await using line = await openLine(way);
      const { connection } = await line.connect();
      for (const length of [0, 0, 20_000_000, 20_000_000]) {
        // While a large parameter arrives nothing runs that could be stopped.
        const parameter = sql("select length($1::text)", "x".repeat(length));
        const sending = connection.send([BEGIN, parameter, sql("select pg_sleep(600)"), COMMIT]);
        await connection.cancel();
        expect((await sending).map(reasonOf)).toContain("57014");
        const outcomes = await connection.send([BEGIN, sql("select $1::int", length), COMMIT]);
        expect(outcomes.map(reasonOf)).toEqual([undefined, undefined, undefined]);
      }
      await connection.cancel(); // there is nothing to cancel
      connection.release();
    });

    test("cancelling ends the transaction, also where the commit that was sent did not", async () => {
      await using line = await openLine(way);
      const { connection } = await line.connect();
      // A request that meets the commit leaves the same behind as no commit at all.
      const sending = connection.send([BEGIN, sql("select pg_sleep(600)")]);
      await connection.cancel();
      expect((await sending).map(reasonOf)).toContain("57014");
      const outcomes = await connection.send([sql("select $1::int", 1)]);
      expect(outcomes.map(reasonOf)).toEqual([undefined]);
      connection.release();
    });

    test("a pool of yours gets its connections back as they were", async () => {
      await using line = await openLine(way);
      for (const pipeline of [false, true]) {
        await using pool = new DisposablePool({ connectionString: line.connectionString, max: 1, pipeline });
        const database = await openDatabase({ pool, schema: line.at.schema });
        const session = await (await database.repo("default")).create({}, context);
        await session.setName("name", context);
        await expect(database.repo("nobody")).rejects.toMatchObject({ code: "tenant_not_found" });
        const client = (await pool.connect()) as PoolClient & { pipeline: boolean };
        expect(client.pipeline).toBe(pipeline);
        expect((await client.query("select $1::int as a", [1])).rows).toEqual([{ a: 1 }]);
        client.release();
        await database.close();
      }
    });

    test("a driver that cannot send together works, one statement after the other", async () => {
      await using line = await openLine(way);
      await using pool = new DisposablePool({ connectionString: line.connectionString, max: 2 });
      pool.on("connect", (client) => Reflect.deleteProperty(client, "pipeline"));
      const database = await openDatabase({ pool, schema: line.at.schema });
      const repo = await database.repo("default");
      const session = await repo.create({}, context);
      const main = await session.createBranch("main", null, context);
      await Promise.all([1, 2, 3].map((step) => main.appendCustomEntry("step", step, context)));
      expect(await main.findEntries(undefined, context)).toHaveLength(3);
      await expect(database.tenants.create({ slug: "default" })).rejects.toMatchObject({
        code: "tenant_exists",
      });
      expect(await repo.list(undefined, context)).toHaveLength(1);
      await database.close();

      const client = await pool.connect();
      const traffic = trafficOf(client);
      const connection = guardConnection(client, () => false);
      const outcomes = await connection.send([BEGIN, sql("select 1 / $1::int", 0), sql("select 2"), COMMIT]);
      expect(outcomes.map(reasonOf)).toEqual([undefined, "22012", "25P02", undefined]);
      expect(traffic).toEqual(Array(4).fill(["sent", "answered"]).flat());
      connection.release();
      expect(client).not.toHaveProperty("pipeline");
    });
  });
}

const hasOpenssl = spawnSync("openssl", ["version"]).status === 0;

test.skipIf(!hasPgBouncer || !hasOpenssl)("a cancellation is encrypted like its connection", async () => {
  await using at = await openTestDatabase();
  await using certificate = await selfSigned();
  await using bouncer = await startPgBouncer(at, {
    settings: {
      client_tls_sslmode: "require",
      client_tls_key_file: certificate.key,
      client_tls_cert_file: certificate.certificate,
    },
  });
  await using listener = await listenIn(bouncer.through(at.connectionString));
  const database = await openDatabase({
    connectionString: `${listener.connectionString}?sslmode=no-verify`,
    schema: at.schema,
  });
  const session = await (await database.repo("default")).create({}, context);
  const lock = await at.admin.connect();
  await lock.query("begin");
  await lock.query(`lock table "${at.schema}".scalar_values in access exclusive mode`);
  const controller = new AbortController();
  const reading = session.getName(withAbortSignal(controller.signal, context));
  const connections = listener.greetings.length;
  await backendWaits(at);
  controller.abort(new Error("enough"));
  await expect(reading).rejects.toThrow("enough");
  await lock.query("rollback");
  lock.release();
  await database.close();
  expect(listener.greetings.length).toBeGreaterThan(connections);
  const SSL_REQUEST = "0000000804d2162f";
  expect(new Set(listener.greetings)).toEqual(new Set([SSL_REQUEST]));
});

/** Resolves as soon as a backend waits for a lock on a table of the test. */
async function backendWaits(at: TestDatabase): Promise<void> {
  for (;;) {
    const { rows } = await at.admin.query(
      `select from pg_locks as l join pg_class as c on c.oid = l.relation
       where not l.granted and c.relnamespace = $1::regnamespace`,
      [at.schema],
    );
    if (rows.length > 0) return;
  }
}

/** A pool of one connection to a server that all tests share. */
interface Line extends AsyncDisposable {
  readonly at: TestDatabase;
  readonly connectionString: string;
  /** `traffic` grows with each statement that is sent or answered. */
  connect(): Promise<{ connection: Connection; traffic: string[] }>;
}

async function openLine(way: (typeof ways)[number]): Promise<Line> {
  await using stack = new AsyncDisposableStack();
  const at = stack.use(await openTestDatabase());
  const connectionString =
    way === "directly"
      ? at.connectionString
      : stack.use(await startPgBouncer(at, { serverConnections: 1 })).through(at.connectionString);
  const pool = stack.use(new DisposablePool({ connectionString, max: 1 }));
  const toDispose = stack.move();
  return {
    at,
    connectionString,
    async connect() {
      const client = await pool.connect();
      return { connection: guardConnection(client, () => way === "directly"), traffic: trafficOf(client) };
    },
    [Symbol.asyncDispose]: () => toDispose.disposeAsync(),
  };
}

/** Ends with the test, also when that fails with connections in use. */
class DisposablePool extends Pool {
  readonly #used = new Set<PoolClient>();

  constructor(config: PoolConfig & { pipeline?: boolean }) {
    super(config);
    this.on("error", () => {});
    this.on("connect", (client) => client.on("error", () => {}));
    this.on("acquire", (client) => this.#used.add(client));
    this.on("release", (_, client) => this.#used.delete(client as PoolClient));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#used) client.release(true);
    await this.end();
  }
}

/** What the driver does on the wire; every statement ends with one message of its own and one answer. */
function trafficOf(client: PoolClient): string[] {
  const traffic: string[] = [];
  const { connection } = client as unknown as {
    connection: NodeJS.EventEmitter & Record<"query" | "sync", (...args: unknown[]) => void>;
  };
  for (const message of ["query", "sync"] as const) {
    const send = connection[message].bind(connection);
    connection[message] = (...args) => {
      traffic.push("sent");
      send(...args);
    };
  }
  // Before the driver hears of it and sends what waits.
  connection.prependListener("readyForQuery", () => traffic.push("answered"));
  return traffic;
}

type Outcome = Awaited<ReturnType<Connection["send"]>>[number];

function rowsOf(outcome: Outcome | undefined): unknown[] {
  return outcome?.status === "fulfilled" ? outcome.value.rows : [];
}

function reasonOf(outcome: Outcome): string | undefined {
  return outcome.status === "rejected" ? outcome.reason.code : undefined;
}

async function selfSigned(): Promise<AsyncDisposable & { key: string; certificate: string }> {
  const directory = await mkdtemp(join(tmpdir(), "pi-certificate-"));
  const [key, certificate] = [join(directory, "key.pem"), join(directory, "certificate.pem")];
  const options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"];
  execFileSync("openssl", ["req", ...options, "-keyout", key, "-out", certificate], { stdio: "ignore" });
  // The pooler is another user.
  await chmod(directory, 0o755);
  await chmod(key, 0o644);
  return {
    key,
    certificate,
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}

/** Stands before a server and takes down the first eight bytes of each connection. */
async function listenIn(
  connectionString: string,
): Promise<AsyncDisposable & { connectionString: string; greetings: string[] }> {
  const url = new URL(connectionString);
  const target = Number(url.port);
  const greetings: string[] = [];
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1");
    client.once("data", (chunk: Buffer) => greetings.push(chunk.toString("hex", 0, 8)));
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream]) socket.on("error", () => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url.port = String((server.address() as AddressInfo).port);
  return {
    connectionString: url.href,
    greetings,
    [Symbol.asyncDispose]: async () => void server.close(),
  };
}
