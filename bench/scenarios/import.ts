import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import pg from "pg";
import { from as copyFrom } from "pg-copy-streams";
import {
  BACKGROUND_CONTEXT as context,
  type Database,
  importArchives,
  openDatabase,
} from "../../src/index.ts";
import { writeArchives } from "../import/archives.ts";
import { serverCpuMs } from "../measuring/cpu.ts";
import { interleave } from "../measuring/rounds.ts";
import { lineOf, OURS } from "../report/compare.ts";
import type { Line } from "../report/line.ts";
import type { Bench } from "./bench.ts";
import type { Findings } from "./scenario.ts";

export const IMPORT = "Import archives";
const IMPORT_COST = "What an import costs beside time";
export const RAW_COPY = "COPY of the lines into one text column";

/** Files of version 3 into sessions, against the same bytes into a table that knows nothing of them. */
export async function measureImport(bench: Bench): Promise<Findings> {
  const { server, directory } = bench;
  const size = bench.options.isQuick ? { files: 4, bytes: 4_000_000 } : { files: 8, bytes: 128_000_000 };
  const paths = await writeArchives(join(directory, "archives"), size);
  await server.query("create table raw_lines (line text)");
  await using stack = new AsyncDisposableStack();
  const open = async (connectionString: string) => {
    const database = await openDatabase({ connectionString });
    stack.defer(() => database.close());
    return database;
  };
  const owner = await open(server.ownerUrl);
  const application = await open(server.applicationUrl);
  const raw = new pg.Client(server.ownerUrl);
  await raw.connect();
  stack.defer(() => raw.end());

  let imports = 0;
  const contenders = [
    {
      name: OURS,
      work: async () => {
        const slug = `import-${++imports}`;
        await owner.tenants.create({ slug });
        await importAll(application, slug, paths);
      },
    },
    { name: RAW_COPY, work: () => copyAll(raw, paths) },
  ];
  const costs = new ProcessorTimes(server.postmasterPid);
  const samples = await interleave(
    contenders.map(({ name, work }) => ({
      name,
      sample: () => timed(server.query, () => costs.measure(name, work)),
    })),
    { rounds: bench.options.isQuick ? 2 : 5 },
  );
  const bytes = (await Promise.all(paths.map((path) => stat(path)))).reduce((sum, { size }) => sum + size, 0);
  const work = `${paths.length} files of version 3, ${Math.round(bytes / 1_000_000)} MB`;
  return { lines: [lineOf({ section: IMPORT, work, unit: "ms" }, samples), ...costs.lines()] };
}

/** What the work of each contender takes both sides. */
class ProcessorTimes {
  readonly #postmasterPid: number;
  readonly #client = new Map<string, number[]>();
  readonly #server = new Map<string, number[]>();

  constructor(postmasterPid: number) {
    this.#postmasterPid = postmasterPid;
  }

  async measure(name: string, work: () => Promise<void>): Promise<void> {
    const before = await serverCpuMs(this.#postmasterPid);
    const start = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(start);
    const after = await serverCpuMs(this.#postmasterPid);
    add(this.#client, name, (user + system) / 1_000);
    if (before !== undefined && after !== undefined) add(this.#server, name, after - before);
  }

  lines(): Line[] {
    const line = (work: string) => ({ section: IMPORT_COST, work, unit: "ms" }) as const;
    return [
      lineOf(line("processor time of the importing process"), this.#client),
      ...(this.#server.size === 0 ? [] : [lineOf(line("processor time of the server"), this.#server)]),
    ];
  }
}

function add(samples: Map<string, number[]>, name: string, sample: number): void {
  samples.set(name, [...(samples.get(name) ?? []), sample]);
}

/** Each begins after a checkpoint, so that none writes the pages of the other. */
async function timed(query: (sql: string) => Promise<unknown>, work: () => Promise<void>): Promise<number> {
  await query("truncate raw_lines");
  await query("checkpoint");
  const start = performance.now();
  await work();
  return performance.now() - start;
}

async function importAll(database: Database, tenant: string, paths: readonly string[]): Promise<void> {
  const repo = await database.repo(tenant);
  for await (const file of importArchives(repo.importer, paths, {}, context)) {
    if (file.status !== "imported") throw new Error(`${file.path} was not imported: ${JSON.stringify(file)}`);
  }
}

/** As CSV with separators that do not occur, so that nothing in a line has to be escaped. */
async function copyAll(client: pg.Client, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const lines = client.query(
      copyFrom(String.raw`copy raw_lines from stdin (format csv, delimiter e'\x01', quote e'\x02')`),
    );
    await pipeline(createReadStream(path), lines);
  }
}
