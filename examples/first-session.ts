/** Creates a session, talks in it, forks it, and reads back what a model would get. */
import { buildSessionContext, BACKGROUND_CONTEXT as context, openDatabase } from "pi-session-postgres";

const db = await openDatabase({
  connectionString: process.env["DATABASE_URL"] ?? "postgresql://localhost/agents",
});
await db.migrate();
const repo = await db.repo("default");

const session = await repo.create({ cwd: "/srv/app" }, context);
const main = await session.createBranch("main", null, context);
const question = await main.appendMessage({ role: "user", content: "hello", timestamp: Date.now() }, context);
await session.setLabel(question, "where it began", context);
await session.setName("First steps", context);

const fork = await repo.fork(session.metadata, { scope: "tree" }, context);
const branch = await fork.branch("main", context);
const path = (await branch?.findEntries({ order: "oldestFirst" }, context)) ?? [];
console.log(await buildSessionContext(path, undefined, context));

await db.close();
