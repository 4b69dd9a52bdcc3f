import type { Context } from "../contract/context.ts";
import { InvalidOptionError, SessionNotFoundError } from "../contract/errors.ts";
import { assertSessionId } from "../contract/text.ts";
import type { SessionKey } from "./session-key.ts";
import { onSnapshot, read, type Tables } from "./transaction.ts";
import { rebuildUsage } from "./usage-sums.ts";
import { isRepairable, repairSession } from "./verify-repair.ts";
import { type Examination, examineSession, type Fault } from "./verify-session.ts";
import { examineSums } from "./verify-sums.ts";
import { examineTenant, recountTenant } from "./verify-tenant.ts";

/** What to verify, and whether to repair it. */
export interface VerifyOptions {
  /** Only this session. Default: all sessions of the tenant, and what is counted for the tenant as a whole. */
  sessionId?: string;
  /** Whether to rebuild what follows from other rows; nothing else is ever changed. Default false. */
  repair?: boolean;
  /** Called with each finding; the verification goes on when it has resolved. */
  onFinding?: (finding: Finding) => void | Promise<void>;
}

/** An inconsistency. There is at most one per check and session. */
export interface Finding {
  /** The check that failed. */
  check: VerifyCheck;
  /** Id of the session; `undefined` for the tenant as a whole. */
  sessionId: string | undefined;
  /** Number of rows, or fields, that are affected. */
  count: number;
  /** What was found, in words and without message content. */
  what: string;
  /** Whether it can be rebuilt from other rows. */
  repairable: boolean;
  /** Whether it has been rebuilt. */
  repaired: boolean;
}

/** Numbers of a verification. */
export interface VerifyReport {
  /** Number of sessions that were looked at. */
  sessions: number;
  /** Number of findings, repaired ones included. */
  findings: number;
  /** How many of the findings were repaired. */
  repaired: number;
}

/** Stable names of the checks; docs/verify.md describes each. */
export type VerifyCheck =
  | "seq_shared"
  | "seq_ahead"
  | "id_shared"
  | "parent_missing"
  | "parent_later"
  | "branch_tip"
  | "usage_columns"
  | "entry_run"
  | "entry_bytes"
  | "message_count"
  | "usage_totals"
  | "session_name"
  | "first_message"
  | "stored_bytes"
  | "reserved_bytes"
  | "metadata_terms"
  | "tenant_sessions"
  | "tenant_bytes"
  | "usage_sums";

/**
 * Looks at one session after the other, each on one snapshot, while programs go on writing. Repairs a session in one
 * transaction that no commit can slip into.
 *
 * @throws SessionNotFoundError, InvalidOptionError, InvalidTextError
 * @throws DatabasePermissionError when the role may not repair; TenantSuspendedError
 */
export async function verify(
  tables: Tables,
  tenantId: string,
  options: VerifyOptions,
  context: Context,
): Promise<VerifyReport> {
  assertOptions(options);
  const { sessionId, repair = false, onFinding = () => {} } = options;
  const report = { sessions: 0, findings: 0, repaired: 0 };
  const tell = async (fault: Fault, of: string | undefined, isRepaired: boolean) => {
    const repairable = isRepairable(fault.check);
    const repaired = isRepaired && repairable;
    report.findings++;
    if (repaired) report.repaired++;
    await onFinding({ ...fault, sessionId: of, repairable, repaired });
  };

  let isRecountDue = false;
  const ids = sessionId === undefined ? sessionIds(tables, tenantId, context) : [sessionId];
  for await (const id of ids) {
    const key = { tenantId, sessionId: id };
    const seen = await examine(tables, key, context);
    if (seen === undefined) {
      if (sessionId !== undefined) throw new SessionNotFoundError(id);
      continue; // deleted since
    }
    report.sessions++;
    const isRepairing = repair && seen.faults.some(({ check }) => isRepairable(check));
    const { faults } = isRepairing ? ((await repairSession(tables, key, context)) ?? seen) : seen;
    for (const fault of faults) await tell(fault, id, isRepairing);
    isRecountDue ||= isRepairing && faults.some(({ check }) => COUNTED_FOR_TENANT.has(check));
  }

  const counts = sessionId === undefined ? await examineTenant(tables, tenantId, context) : [];
  if (isRecountDue || (repair && counts.length > 0)) await recountTenant(tables, tenantId, context);
  const sums = sessionId === undefined ? await examineSums(tables, tenantId, context) : [];
  if (repair && sums.length > 0) await rebuildUsage(tables, { tenantId }, context);
  for (const fault of [...counts, ...sums]) await tell(fault, undefined, repair);
  return report;
}

/** Their repair changes what the tenant stores. */
const COUNTED_FOR_TENANT: ReadonlySet<VerifyCheck> = new Set(["stored_bytes", "reserved_bytes"]);

function examine(tables: Tables, key: SessionKey, context: Context): Promise<Examination | undefined> {
  return onSnapshot(tables, context, (trx) => examineSession(trx, key, context));
}

const SESSIONS_PER_READ = 1_000;

/** In the order of their ids, so that a page is one range of the primary key. */
async function* sessionIds(tables: Tables, tenantId: string, context: Context): AsyncGenerator<string> {
  let after = "";
  for (;;) {
    const page = await read(tables, context, (db) =>
      db
        .selectFrom("sessions")
        .select("session_id")
        .where("tenant_id", "=", tenantId)
        .where("session_id", ">", after)
        .orderBy("session_id")
        .limit(SESSIONS_PER_READ),
    );
    for (const { session_id } of page) yield session_id;
    const last = page.at(-1);
    if (last === undefined || page.length < SESSIONS_PER_READ) return;
    after = last.session_id;
  }
}

/** @throws InvalidOptionError, InvalidTextError */
function assertOptions({ sessionId, repair, onFinding }: VerifyOptions): void {
  if (sessionId !== undefined) assertSessionId("session id", sessionId);
  if (repair !== undefined && typeof repair !== "boolean") {
    throw new InvalidOptionError("repair", repair, "pass true or false");
  }
  if (onFinding !== undefined && typeof onFinding !== "function") {
    throw new InvalidOptionError("onFinding", typeof onFinding, "pass a function");
  }
}
