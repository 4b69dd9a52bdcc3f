import type { Compilable } from "kysely";
import {
  DuplicateIdError,
  MissingParentError,
  SessionFencedError,
  SessionNotFoundError,
} from "../contract/errors.ts";
import { firstPreview, newName, replacedValues } from "./batch-summary.ts";
import type { Input } from "./commit-parameters.ts";
import { buildStatement, type CommitParts } from "./commit-statement.ts";
import {
  BudgetExceededError,
  TenantBeingDeletedError,
  TenantLimitError,
  TenantNotFoundError,
  TenantSuspendedError,
} from "./errors.ts";
import { headOf, type SessionHead } from "./session-head.ts";
import type { SessionKey } from "./session-key.ts";
import { statsColumns } from "./session-row.ts";
import { Templates } from "./template.ts";
import type { Tables } from "./transaction.ts";
import type { WriteBatch } from "./write-batch.ts";

/** Moves a session from one head to the next by a few writes. */
export interface Advance {
  /** Stays with the session until the next commit, so that the outcome can be found out. */
  readonly commitId: string;
  /** What the session was opened at. */
  readonly writerEpoch: number;
  readonly from: SessionHead;
  readonly to: SessionHead;
  /** Milliseconds since the epoch. */
  readonly modifiedAt: number;
  readonly batch: WriteBatch;
  /** Whether this goes on with a tenant that has exhausted a hard budget. */
  readonly isWithinBudget: boolean;
  /** The bytes are counted against the tenant's limit later, for all of the session at once. */
  readonly isChargedLater?: boolean;
  /** This commit may have happened already. */
  readonly isUncertain?: boolean;
}

/** What became of an {@link Advance}; nothing was written unless it was applied. */
export type AdvanceOutcome =
  /** `checksBudgets`: the tenant has hard budgets. */
  | { kind: "applied"; checksBudgets: boolean }
  /** Somebody has written since the head was read, perhaps this very commit; `current` is the head now. */
  | { kind: "overtaken"; current: SessionHead; lastCommit: string | null }
  /** The tenant has a limit, and the session has not reserved enough bytes. */
  | { kind: "unreserved" };

type OutcomeRow = ReturnType<typeof buildStatement> extends Compilable<infer TRow> ? TRow : never;

/** @throws DuplicateIdError, MissingParentError, SessionNotFoundError, SessionFencedError, TenantSuspendedError,
 *   TenantLimitError, BudgetExceededError */
export function advanceOutcome(
  found: OutcomeRow | undefined,
  { sessionId }: SessionKey,
  { from, batch, isUncertain, writerEpoch, isWithinBudget }: Advance,
  tenant: string,
): AdvanceOutcome {
  if (found === undefined || found.tenant_id === null) throw new TenantNotFoundError(tenant);
  if (found.applied !== null) return { kind: "applied", checksBudgets: found.hard_budgets === true };
  if (found.next_seq === null) throw new SessionNotFoundError(sessionId);
  const current = headOf({ ...found, next_seq: found.next_seq });
  const overtaken = { kind: "overtaken", current, lastCommit: found.last_commit } as const;
  // Its own rows would now look like somebody else's.
  if (isUncertain === true && current.nextSeq !== from.nextSeq) return overtaken;
  if (found.writer_epoch !== writerEpoch) throw new SessionFencedError(sessionId);
  if (found.deleting === true) throw new TenantBeingDeletedError(tenant);
  if (found.suspended_at !== null) throw new TenantSuspendedError(tenant);
  if (!isWithinBudget && found.exhausted_until !== null) {
    throw new BudgetExceededError(tenant, found.exhausted_until);
  }
  if (found.taken_id !== null) throw new DuplicateIdError(found.taken_id);
  if (found.missing_parent !== null) throw new MissingParentError(found.missing_parent);
  if (found.max_entry_bytes !== null && batch.largestEntryBytes > found.max_entry_bytes) {
    throw new TenantLimitError(tenant, "entryBytes", found.max_entry_bytes);
  }
  return current.nextSeq === from.nextSeq ? { kind: "unreserved" } : overtaken;
}

const TEMPLATES = new Templates<Input, OutcomeRow>();

/**
 * Writes everything and moves the head in one statement, which succeeds only if the session's head is still the
 * expected one. Its one row is for {@link advanceOutcome}. Its parameters are arrays, so its text depends only on what
 * there is anything of.
 */
export function advanceStatement(
  { db, schema }: Pick<Tables, "db" | "schema">,
  { tenantId, sessionId }: SessionKey,
  advance: Advance,
): Compilable<OutcomeRow> {
  const { batch } = advance;
  const name = newName(batch);
  const parts = partsOf(batch, name);
  const build = () => buildStatement(db, schema, parts) as Compilable<OutcomeRow>;
  return TEMPLATES.fill(db, JSON.stringify(parts), build, {
    tenantId,
    sessionId,
    advance,
    stats: statsColumns(advance.to.stats),
    ids: [...batch.entries.entry_id, ...batch.usage.usage_id] as string[],
    replaced: replacedValues(batch),
    preview: firstPreview(batch),
    name,
  });
}

function partsOf(batch: WriteBatch, name: string | null | undefined): CommitParts {
  const { entries, usage, deleteValues, appendLists, deleteLists } = batch;
  return {
    entries: entries.seq.length > 0,
    usage: usage.seq.length > 0,
    rare: [deleteValues, appendLists, deleteLists].some(({ key }) => key.length > 0),
    name: name !== undefined,
  };
}
