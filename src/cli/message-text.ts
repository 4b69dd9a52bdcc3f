import type { Entry } from "../contract/entry.ts";
import type { AgentMessage } from "../contract/message.ts";
import { formatCount } from "./output.ts";

/** A message or entry as people read it: who, and what. */
export interface Described {
  title: string;
  text: string;
}

export function describeMessage(message: AgentMessage): Described {
  switch (message.role) {
    case "assistant":
      return {
        title: `assistant (${message.model})`,
        text: textOf(message.content) || `[${message.stopReason}]`,
      };
    case "toolResult":
      return { title: `result of ${message.toolName}`, text: textOf(message.content) };
    case "bashExecution":
      return { title: "shell", text: `$ ${message.command}\n${message.output}` };
    case "branchSummary":
      return { title: "branch summary", text: message.summary };
    case "compactionSummary":
      return { title: `summary of ${formatCount(message.tokensBefore)} tokens`, text: message.summary };
    default:
      return { title: String(message.role), text: textOf(message.content) };
  }
}

export function describeEntry(entry: Entry): Described {
  switch (entry.type) {
    case "message":
      return describeMessage(entry.message);
    case "compaction":
      return { title: "compaction", text: entry.summary };
    case "branch_summary":
      return { title: "branch summary", text: entry.summary };
    case "custom":
      return { title: entry.customType, text: entry.data === undefined ? "" : JSON.stringify(entry.data) };
  }
}

/** Stored messages come from many programs, so nothing is taken for granted about their content. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map(partText).filter(Boolean).join("\n");
}

function partText(
  part: { type?: unknown; text?: unknown; name?: unknown; arguments?: unknown } | null,
): string {
  switch (part?.type) {
    case "text":
      return String(part.text ?? "");
    case "toolCall":
      return `→ ${String(part.name)}(${JSON.stringify(part.arguments ?? {})})`;
    case "image":
      return "[image]";
    default:
      return "";
  }
}
