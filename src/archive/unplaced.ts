import type { CommittedWrite, Write } from "../contract/write.ts";

/** The write as a commit would hand it in. */
export function unplaced(write: CommittedWrite): Write {
  switch (write.kind) {
    case "entry":
      return { kind: "entry", entry: write };
    case "usage":
      return { kind: "usage", row: write };
    default:
      return write;
  }
}
