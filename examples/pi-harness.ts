/** Hands a session to code that is written for pi's own types. */
// From the package itself, whose root declares all message roles; its subpath alone leaves some out.
import type { Session } from "@earendil-works/pi-agent-core";
import { BACKGROUND_CONTEXT as context, openDatabase } from "pi-session-postgres";

async function countMessages(session: Session): Promise<number> {
  return (await session.getStats(context)).messageCount;
}

const db = await openDatabase({
  connectionString: process.env["DATABASE_URL"] ?? "postgresql://localhost/agents",
});
await db.migrate();
const session = await (await db.repo("default")).create({}, context);
console.log(`${await countMessages(session)} messages`);
await db.close();
