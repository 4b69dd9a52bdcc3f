import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseError, Pool, type PoolClient, type PoolConfig } from "pg";
import { describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context, withAbortSignal } from "../../src/contract/context.ts";
import { type Connection, guardConnection } from "../../src/postgres/connection.ts";
import { openDatabase } from "../../src/postgres/database.ts";
import { isConnectionLoss } from "../../src/postgres/failure.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import { tenantSetting } from "../../src/postgres/tenant-setting.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { hasPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";

const ways = ["directly", "through PgBouncer in transaction mode"] as const;
const sql = (text: string, ...parameters: unknown[]) => ({ sql: text, parameters });
const TENANT = tenantOf("new");
const BEGIN = [sql("start transaction"), sql(tenantSetting(TENANT.tenantId))];
const COMMIT = sql("commit");

for (const way of ways) {
  const isSkipped = way !== "directly" && !hasPgBouncer;
  describe.skipIf(isSkipped)(isSkipped ? `${way} (pgbouncer is not installed)` : way, () => {
    test("statements are sent together, without waiting for an answer", async () => {
      await using line = await openLine(way);
      const { connection, traffic } = await line.connect();
      const rows = await connection.send([
        ...BEGIN,
        sql("select $1::int as a", 1),
        sql("select 2 as b"),
        COMMIT,
      ]);
      expect(rows).toEqual([[], [], [{ a: 1 }], [{ b: 2 }], []]);
      expect(traffic).toEqual(["sent", "answered"]);
      connection.release();
    });

    test("an error in the middle undoes the transaction and spoils nothing behind it", async () => {
      await using line = await openLine(way);
      const { connection } = await line.connect();
      const tenants = `"${line.at.schema}".tenants`;
      const { tenantId, slug } = TENANT;
      const insertion = sql(`insert into ${tenants} (tenant_id, slug) values ($1, $2)`, tenantId, slug);
      for (let time = 0; time < 3; time++) {
        const sending = connection.send([
          ...BEGIN,
          insertion,
          sql("select 1 / $1::int", 0),
          sql("select no_such_function($1::int)", 1),
          COMMIT,
        ]);
        await expect(sending).rejects.toMatchObject({ code: "22012" });
        await connection.rollBack();
        const [left] = await connection.send([sql("select current_setting('pi_sessions.tenant') as tenant")]);
        expect(left).toEqual([{ tenant: "" }]);
        const [, , found] = await connection.send([...BEGIN, sql(`select slug from ${tenants}`), COMMIT]);
        expect(found).toEqual([]);
      }
      connection.release();
    });

    test("an error that comes before the transaction's first answer leaves the connection as it was", async () => {
      await using line = await openLine(way);
      const { connection, traffic } = await line.connect();
      await expect(connection.send([sql("select"), sql("no statement"), COMMIT])).rejects.toMatchObject({
        code: "42601",
      });
      traffic.length = 0;
      await connection.rollBack(); // there is no transaction
      expect(traffic).toEqual([]);
      const circle: unknown[] = [];
      circle.push({ circle });
      await expect(connection.send([...BEGIN, sql("select $1::json", { circle }), COMMIT])).rejects.toThrow(
        /circular/i,
      );
      connection.release();
      const next = await line.connect();
      expect(await next.connection.send([sql("select $1::int as a", 1)])).toEqual([[{ a: 1 }]]);
      next.connection.release();
    });

    test("a statement that was in the way of an error is planned again", async () => {
      await using line = await openLine(way);
      const { connection } = await line.connect();
      const statements = (divisor: number) => [
        sql("select 6 / $1::int as c", divisor),
        sql("select $1::int as d", 1),
      ];
      for (const divisor of [0, 2, 0, 3]) {
        const sending = connection.send(statements(divisor));
        if (divisor === 0) await expect(sending).rejects.toMatchObject({ code: "22012" });
        else expect(await sending).toEqual([[{ c: 6 / divisor }], [{ d: 1 }]]);
        await connection.rollBack();
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
      const rows = await connection.send([...BEGIN, ...statements, COMMIT]);
      const results = rows.flat() as { length?: number; large: string }[];
      expect(results.map((row) => row.length ?? row.large.length)).toEqual(Array(8).fill(10_000_000));
      expect(results.map((row) => row.large[0]).join("")).toBe("yxyxyxyx");
      connection.release();
    });

    test("a connection that is killed in the middle fails what was sent, and the pool gets another one", async () => {
      await using line = await openLine(way);
      const suicide = sql("select pg_terminate_backend(pg_backend_pid())");
      for (const statements of [
        [...BEGIN, suicide, sql("select $1::int", 1), COMMIT],
        [...BEGIN, sql("select $1::int", 1), suicide],
        [suicide],
      ]) {
        const { connection } = await line.connect();
        await expect(connection.send(statements)).rejects.toSatisfy(isConnectionLoss);
        await connection.rollBack(); // there is nothing to end
        connection.release();
        const next = await line.connect();
        expect(await next.connection.send([sql("select $1::int as a", 1)])).toEqual([[{ a: 1 }]]);
        next.connection.release();
      }
    });

    test("cancelling stops what runs, and nothing that comes after", async () => {
      await using line = await openLine(way);
      const { connection } = await line.connect();
      for (const length of [0, 0, 20_000_000, 20_000_000]) {
        // While a large parameter arrives nothing runs that could be stopped.
        const parameter = sql("select length($1::text)", "x".repeat(length));
        const sending = connection.send([...BEGIN, parameter, sql("select pg_sleep(600)"), COMMIT]);
        const failing = expect(sending).rejects.toMatchObject({ code: "57014" });
        await connection.cancel();
        await failing;
        await connection.rollBack();
        const rows = await connection.send([...BEGIN, sql("select $1::int as length", length), COMMIT]);
        expect(rows).toEqual([[], [], [{ length }], []]);
      }
      await connection.cancel(); // there is nothing to cancel
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

    test("a driver without a pipeline of its own works as well", async () => {
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
      expect(client).not.toHaveProperty("pipeline");
      client.release();
    });

    test("a pool of another copy of the driver keeps its connection when the server refuses something", async () => {
      await using line = await openLine(way);
      const pool = new (otherDriver().Pool)({ connectionString: line.connectionString, max: 1 });
      let connections = 0;
      pool.on("connect", () => connections++);
      const database = await openDatabase({ pool, schema: line.at.schema });
      for (let attempt = 0; attempt < 3; attempt++) {
        await expect(database.tenants.create({ slug: "default" })).rejects.toMatchObject({
          code: "tenant_exists",
        });
      }
      await database.close();
      await pool.end();
      expect(connections).toBe(1);
    });

    test("a time limit of the driver's own ends what it waits for, and the connection with it", async () => {
      await using line = await openLine(way);
      await using pool = new DisposablePool({
        connectionString: line.connectionString,
        max: 1,
        query_timeout: 300,
      });
      const client = await pool.connect();
      const connection = guardConnection(client, () => false);
      const sending = connection.send([...BEGIN, sql("select pg_sleep(601)"), COMMIT]);
      await expect(sending).rejects.toThrow(/timeout/);
      // The driver only stops waiting.
      const ending =
        "select pg_terminate_backend(pid) from pg_stat_activity where query = 'select pg_sleep(601)'";
      await expect.poll(async () => (await line.at.admin.query(ending)).rowCount).toBeGreaterThan(0);
      await connection.rollBack();
      connection.release();
      const next = guardConnection(await pool.connect(), () => false);
      expect(await next.send([sql("select $1::int as a", 1)])).toEqual([[{ a: 1 }]]);
      next.release();
    });
  });
}

/** As a program has that depends on another version of it. */
function otherDriver(): typeof import("pg") {
  const require = createRequire(import.meta.url);
  const own = Object.entries(require.cache).filter(([path]) => /node_modules\/pg(-|\/)/.test(path));
  for (const [path] of own) delete require.cache[path];
  const other = require("pg") as typeof import("pg");
  expect(other.DatabaseError).not.toBe(DatabaseError);
  Object.assign(require.cache, Object.fromEntries(own));
  return other;
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

/** What is sent and answered: the point of synchronization that ends each piece. */
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
