/** A program that starts a server and then ends in the way it is told: owner.ts <dataDir> wait|return|throw */
import { startEmbeddedServer } from "../../src/embedded/server.ts";

const [dataDir = "", ending] = process.argv.slice(2);
const server = await startEmbeddedServer({ dataDir, settings: { fsync: "off" } });
console.log(server.connectionString);
if (ending === "wait") setInterval(() => {}, 60_000);
if (ending === "throw") throw new Error("an uncaught error of the owner");
