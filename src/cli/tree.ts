import type { Entry } from "../contract/entry.ts";
import { describeEntry } from "./message-text.ts";
import { formatTime, oneLine, shortId, visible } from "./output.ts";

interface BranchTip {
  name: string;
  tip: string | null;
}

/**
 * One line per entry. A chain stays in its column; where the conversation forks, each way on gets a column
 * of its own, up to a width that can be read. Works without recursion, since a chain may be very long.
 *
 * @param entries parents before their children; an entry whose parent is not among them is a root
 */
export function* renderTree(
  entries: readonly Entry[],
  branches: readonly BranchTip[],
  labels: ReadonlyMap<string, string>,
): Generator<string> {
  const ids = new Set(entries.map(({ id }) => id));
  const children = Map.groupBy(entries, ({ parentId }) =>
    parentId !== null && ids.has(parentId) ? parentId : null,
  );
  const tips = Map.groupBy(branches, ({ tip }) => tip);
  const stack = forks(children.get(null) ?? [], "");
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { entry, lead, indent } = next;
    yield `${lead}${lineOf(entry, tips.get(entry.id) ?? [], labels.get(entry.id))}`;
    // One by one: arguments go on the call stack, and an entry may have more children than fit there.
    for (const place of forks(children.get(entry.id) ?? [], indent)) stack.push(place);
  }
  for (const { name } of tips.get(null) ?? []) yield `[${visible(name)}] (empty)`;
}

interface Place {
  entry: Entry;
  /** What stands before this entry, and before those after it. */
  lead: string;
  indent: string;
}

/** The ways on from an entry, last first, as a stack wants them. */
function forks(entries: readonly Entry[], indent: string): Place[] {
  if (entries.length === 1) return entries.map((entry) => ({ entry, lead: indent, indent }));
  return entries
    .map((entry, index) => {
      const isLast = index === entries.length - 1;
      return {
        entry,
        lead: deeper(indent, isLast ? "└─ " : "├─ "),
        indent: deeper(indent, isLast ? "   " : "│  "),
      };
    })
    .reverse();
}

const MAX_INDENT = 60;

/** The near end of an indent that has grown too wide: where each turn forks, all of it would fill gigabytes. */
function deeper(indent: string, step: string): string {
  const full = `${indent}${step}`;
  return full.length <= MAX_INDENT ? full : `…${full.slice(1 - MAX_INDENT)}`;
}

function lineOf(entry: Entry, tips: readonly BranchTip[], label: string | undefined): string {
  const { title, text } = describeEntry(entry);
  const marks = [
    ...tips.map(({ name }) => `[${oneLine(name, 30)}]`),
    ...(label === undefined ? [] : [`"${oneLine(label, 30)}"`]),
  ];
  return [
    shortId(entry.id),
    formatTime(entry.timestamp),
    `${oneLine(title, 40)}:`,
    oneLine(text),
    ...marks,
  ].join("  ");
}
