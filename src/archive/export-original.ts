import { NoArchiveError } from "../postgres/errors.ts";
import type { SessionSnapshot } from "../postgres/export-session.ts";
import type { StoredArchive } from "../postgres/read-journal.ts";
import { AddedV3 } from "./added-v3.ts";
import { AddedV4 } from "./added-v4.ts";
import { exportV3 } from "./export-v3.ts";
import { JournalReader, lentPart } from "./journal.ts";
import type { LeftOut } from "./left-out.ts";

/**
 * The bytes of the file that a session was imported from; then what was added to the session since, as pi would have
 * appended it to that file. pi rewrites files of version 1 and 2 before it appends, so of those that grew, all is
 * written as version 3.
 *
 * @throws NoArchiveError
 */
export async function* exportOriginal(session: SessionSnapshot, leftOut: LeftOut): AsyncGenerator<Buffer> {
  const archive = await session.archive();
  if (archive === undefined) throw new NoArchiveError(session.metadata.id);
  if (session.nextSeq === archive.firstFreeSeq) yield* inBlocks(originalPieces(session, archive));
  else if (archive.format < 3) yield* exportV3(session, leftOut);
  else yield* inBlocks(grownPieces(session, archive, leftOut));
}

/** A piece of a file, and whether it is what an entry's payload holds. */
export interface OriginalPiece {
  readonly bytes: Buffer;
  readonly isPayload: boolean;
}

/** Runs the journal over the payloads. */
async function* originalPieces(
  session: SessionSnapshot,
  { firstFreeSeq }: StoredArchive,
): AsyncGenerator<OriginalPiece> {
  const reader = new JournalReader();
  const payloads = session.payloads({ beforeSeq: firstFreeSeq })[Symbol.asyncIterator]();
  for await (const block of session.journal()) {
    for (const step of reader.steps(block)) {
      if ("verbatim" in step) {
        yield { bytes: step.verbatim, isPayload: false };
        continue;
      }
      for (let skipped = 0; skipped < step.skipped; skipped++) await payloads.next();
      const { value } = await payloads.next();
      yield { bytes: lentPart(Buffer.from(value ?? "")), isPayload: true };
    }
  }
}

/** What was added to a file since, after its last whole line. */
export interface Added {
  /** Looks at the file as it goes by. */
  see(piece: OriginalPiece): void;
  /** What pi writes after an unterminated last line; `undefined` if it takes that line away first. */
  readonly afterTornLine: Buffer | undefined;
  pieces(): AsyncIterable<Buffer>;
}

async function* grownPieces(
  session: SessionSnapshot,
  archive: StoredArchive,
  leftOut: LeftOut,
): AsyncGenerator<OriginalPiece> {
  const added: Added =
    archive.format === 3 ? new AddedV3(session, archive, leftOut) : new AddedV4(session, archive);
  let torn: OriginalPiece[] = [];
  for await (const piece of originalPieces(session, archive)) {
    added.see(piece);
    const end = piece.bytes.lastIndexOf(LINE_FEED) + 1;
    if (end > 0) {
      yield* torn;
      yield { ...piece, bytes: piece.bytes.subarray(0, end) };
      torn = [];
    }
    if (end < piece.bytes.length) torn.push({ ...piece, bytes: piece.bytes.subarray(end) });
  }
  if (torn.length > 0 && added.afterTornLine !== undefined) {
    yield* torn;
    yield { bytes: added.afterTornLine, isPayload: false };
  }
  for await (const bytes of added.pieces()) yield { bytes, isPayload: false };
}

const LINE_FEED = 0x0a;

/** In pieces that are worth a system call. */
async function* inBlocks(pieces: AsyncIterable<OriginalPiece>): AsyncGenerator<Buffer> {
  let block: Buffer[] = [];
  let length = 0;
  for await (const { bytes } of pieces) {
    block.push(bytes);
    length += bytes.length;
    if (length < BLOCK_BYTES) continue;
    yield Buffer.concat(block);
    block = [];
    length = 0;
  }
  if (length > 0) yield Buffer.concat(block);
}

const BLOCK_BYTES = 64 * 1024;
