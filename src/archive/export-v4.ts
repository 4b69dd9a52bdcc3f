import type { SessionSnapshot } from "../postgres/export-session.ts";
import type { StoredWrite } from "../postgres/read-writes.ts";
import { members } from "./json-text.ts";
import type { LeftOut } from "./left-out.ts";

/** A session as a format-4 file: what its writes amount to, one transaction per write, as pi's own forks are written. */
export async function* exportV4(session: SessionSnapshot, leftOut: LeftOut): AsyncGenerator<Buffer> {
  if (session.metadata.metadata !== undefined) leftOut.metadata = 1;
  yield Buffer.from(v4Header(session));
  for await (const group of session.writes()) yield Buffer.from(group.map(v4Line).join(""));
}

/** The first line. */
export function v4Header({ metadata, nextSeq }: Pick<SessionSnapshot, "metadata" | "nextSeq">): string {
  const { id, storageVersion, createdAt, cwd = "", parentSessionId, legacyParentSessionPath } = metadata;
  const session = { id, storageVersion, createdAt, cwd, parentSessionId, legacyParentSessionPath, nextSeq };
  return `${JSON.stringify({ v: 4, kind: "header", ...session })}\n`;
}

/** A transaction of one write. JSON that is stored goes into it as it is. */
export function v4Line(write: StoredWrite): string {
  return `{"kind":"${write.kind}",${fieldsOf(write)}}\n`;
}

function fieldsOf(write: StoredWrite): string {
  const { seq } = write;
  switch (write.kind) {
    case "entry": {
      const { id, parentId, type, customType, timestamp, payload } = write;
      return members({ id, parentId, type, customType }, payload, { seq, timestamp });
    }
    case "usage": {
      const { id, usage, entryId, adjustment, details } = write;
      const spent = `{"usage":${usage}}`;
      const told = details === null ? "{}" : `{"details":${details}}`;
      return members({ id }, spent, { entryId: entryId ?? undefined, adjustment }, told, { seq });
    }
    default: {
      const { namespace, key, value } = write;
      const op = write.kind === "value" ? "set" : "append";
      return members({ op, seq, namespace, key }, `{"value":${value}}`);
    }
  }
}
