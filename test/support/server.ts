/**
 * Runs once before all tests: provides the connection string of the server that they share. Set TEST_DATABASE_URL
 * to use your own (its role must be a superuser); else it is a container where Docker answers, else embedded.
 */

import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import type { TestProject } from "vitest/node";
import { startEmbeddedServer } from "../../src/embedded/server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Of a superuser. */
    connectionString: string;
    /** A role that row-level security binds, as programs should connect. */
    application: { role: string; password: string };
  }
}

interface SharedServer {
  readonly what: string;
  readonly connectionString: string;
  stop(): Promise<void>;
}

/** The data are thrown away, so nothing waits for the disk. */
const SETTINGS = { fsync: "off", synchronous_commit: "off", full_page_writes: "off", max_connections: "200" };
const DOCKER_SOCKET = "/var/run/docker.sock";
const DOCKER_ANSWER_TIMEOUT_MS = 500;

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = givenServer() ?? (await containerServer()) ?? (await embeddedServer());
  const version = await serverVersion(server.connectionString);
  console.log(`Tests run on PostgreSQL ${version} (${server.what})`);
  project.provide("connectionString", server.connectionString);
  const application = {
    role: `pi_test_${randomBytes(8).toString("hex")}`,
    password: randomBytes(8).toString("hex"),
  };
  await run(
    server.connectionString,
    `create role ${application.role} login password '${application.password}'`,
  );
  project.provide("application", application);
  return async () => {
    await run(server.connectionString, `drop owned by ${application.role}; drop role ${application.role}`);
    await server.stop();
  };
}

async function run(connectionString: string, sql: string): Promise<void> {
  const client = new Client({ connectionString });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

function givenServer(): SharedServer | undefined {
  const connectionString = process.env["TEST_DATABASE_URL"];
  return connectionString ? { what: "TEST_DATABASE_URL", connectionString, stop: async () => {} } : undefined;
}

async function containerServer(): Promise<SharedServer | undefined> {
  if (!process.env["DOCKER_HOST"] && !(await dockerAnswers())) return undefined;
  try {
    const { GenericContainer, Wait } = await import("testcontainers");
    const container = await new GenericContainer("postgres:18")
      .withEnvironment({ POSTGRES_PASSWORD: "postgres" })
      .withCommand([
        "postgres",
        ...Object.entries(SETTINGS).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
      ])
      .withTmpFs({ "/var/lib/postgresql": "rw" })
      .withExposedPorts(5432)
      // The image's first start runs a temporary server first, which says the same.
      .withWaitStrategy(Wait.forLogMessage("database system is ready to accept connections", 2))
      .start();
    return {
      what: "container",
      connectionString: `postgresql://postgres:postgres@${container.getHost()}:${container.getMappedPort(5432)}/postgres`,
      stop: async () => void (await container.stop()),
    };
  } catch (error) {
    console.log(`No container, although Docker answers: ${(error as Error).message}`);
    return undefined;
  }
}

function dockerAnswers(): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(DOCKER_SOCKET);
    const answer = (answers: boolean) => {
      socket.destroy();
      resolve(answers);
    };
    socket.setTimeout(DOCKER_ANSWER_TIMEOUT_MS, () => answer(false));
    socket.on("error", () => answer(false));
    socket.on("data", () => answer(true));
    socket.on("connect", () => socket.write("GET /_ping HTTP/1.0\r\n\r\n"));
  });
}

async function embeddedServer(): Promise<SharedServer> {
  const directory = await mkdtemp(join(tmpdir(), "pi-sessions-test-"));
  const server = await startEmbeddedServer({
    dataDir: join(directory, "data"),
    settings: SETTINGS,
    initdbFlags: ["--no-sync"],
  });
  return {
    what: "embedded",
    connectionString: server.connectionString,
    stop: async () => {
      await server.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function serverVersion(connectionString: string): Promise<string> {
  const client = new Client({ connectionString });
  await client.connect();
  try {
    const { rows } = await client.query<{ server_version: string }>("show server_version");
    return rows[0]?.server_version ?? "of unknown version";
  } finally {
    await client.end();
  }
}
