import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";

export interface ArchivesSize {
  readonly files: number;
  /** Of all files, roughly. */
  readonly bytes: number;
}

/**
 * Writes version 3 files as coding agents leave them: of ten messages one is a question of 300 characters, five are answers
 * of 1,000 with their usage, four are outputs of tools with 1,300. Always the same ones.
 */
export async function writeArchives(directory: string, { files, bytes }: ArchivesSize): Promise<string[]> {
  await mkdir(directory, { recursive: true });
  const paths: string[] = [];
  for (let number = 1; number <= files; number++) {
    const path = join(directory, `session-${number}.jsonl`);
    const file = createWriteStream(path);
    for (const line of linesOf(`session-${number}`, bytes / files)) {
      if (!file.write(line)) await once(file, "drain");
    }
    file.end();
    await once(file, "close");
    paths.push(path);
  }
  return paths;
}

function* linesOf(session: string, bytes: number): Generator<string> {
  const words = new Words();
  let written = 0;
  let parentId: string | null = null;
  const header = {
    type: "session",
    version: 3,
    id: session,
    timestamp: new Date(FIRST).toISOString(),
    cwd: "/work",
  };
  yield `${JSON.stringify(header)}\n`;
  for (let number = 0; written < bytes; number++) {
    const at = FIRST + number * 1_000;
    const id = (number + 0x10000000).toString(16);
    const timestamp = new Date(at).toISOString();
    const message = messageOf(ROLES[number % ROLES.length] as Role, words, at);
    const line: string = `${JSON.stringify({ type: "message", id, parentId, timestamp, message })}\n`;
    yield line;
    written += line.length;
    parentId = id;
  }
}

const FIRST = Date.UTC(2026, 0, 1);

type Role = "user" | "assistant" | "toolResult";

const [QUESTION, ANSWER, OUTPUT]: readonly Role[] = ["user", "assistant", "toolResult"];
const ROLES = [QUESTION, ANSWER, OUTPUT, ANSWER, OUTPUT, ANSWER, OUTPUT, ANSWER, OUTPUT, ANSWER];

function messageOf(role: Role, words: Words, timestamp: number): object {
  const text = { type: "text", text: words.take(role === "toolResult" ? 1_050 : 250) };
  if (role === "user") return { role, content: [text], timestamp };
  if (role === "toolResult") {
    return { role, toolCallId: "call_1", toolName: "bash", content: [text], isError: false, timestamp };
  }
  return {
    role,
    content: [
      text,
      { type: "toolCall", id: "call_1", name: "bash", arguments: { command: words.take(300) } },
    ],
    api: "anthropic-messages",
    provider: "anthropic",
    model: "claude-opus-4-5",
    usage: {
      input: 120,
      output: 800,
      cacheRead: 20_000,
      cacheWrite: 300,
      totalTokens: 21_220,
      cost: { input: 0.00036, output: 0.012, cacheRead: 0.006, cacheWrite: 0.001125, total: 0.019485 },
    },
    stopReason: "toolUse",
    timestamp,
  };
}

/** Text that compresses about as well as what people write, by a generator of its own so that it is the same everywhere. */
class Words {
  #state = 1;

  take(length: number): string {
    let text = "";
    while (text.length < length) {
      const count = 1 + (this.#next() % 9);
      for (let letter = 0; letter < count; letter++) text += LETTERS[this.#next() % LETTERS.length];
      text += this.#next() % 12 === 0 ? '",\n\t"' : " ";
    }
    return text;
  }

  #next(): number {
    this.#state = (Math.imul(this.#state, 1_103_515_245) + 12_345) >>> 0;
    return this.#state >>> 16;
  }
}

const LETTERS = "eeeeeettttaaaaoooiiinnnssshhrrddlluucmfywgpbvk";
