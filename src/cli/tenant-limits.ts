import { type Command, InvalidArgumentError } from "commander";
import type { TenantLimits } from "../postgres/set-limits.ts";
import { wholeNumber } from "./arguments.ts";

/** False lifts a limit. */
export interface LimitOptions {
  maxSessions?: number | false;
  maxStoredBytes?: number | false;
  maxEntryBytes?: number | false;
}

export function addLimitOptions(command: Command): Command {
  return command
    .option("--max-sessions <count>", "sessions that the tenant may have", wholeNumber)
    .option("--max-stored-bytes <bytes>", "JSON that all its sessions together may store", wholeNumber)
    .option("--max-entry-bytes <bytes>", "JSON of one entry", wholeNumber);
}

export function addLiftingOptions(command: Command): Command {
  return command
    .option("--no-max-sessions", "lift this limit")
    .option("--no-max-stored-bytes", "lift this limit")
    .option("--no-max-entry-bytes", "lift this limit");
}

/** @throws InvalidArgumentError where no limit is named, which would be no change */
export function assertSomeLimit({ maxSessions, maxStoredBytes, maxEntryBytes }: LimitOptions): void {
  if (maxSessions === undefined && maxStoredBytes === undefined && maxEntryBytes === undefined) {
    throw new InvalidArgumentError(
      "Name at least one limit: --max-sessions 100 sets it, --no-max-sessions lifts it.",
    );
  }
}

/** The limits after a change of those that are named. */
export function changedLimits(limits: TenantLimits, options: LimitOptions): TenantLimits {
  return {
    ...changed("sessions", limits.sessions, options.maxSessions),
    ...changed("storedBytes", limits.storedBytes, options.maxStoredBytes),
    ...changed("entryBytes", limits.entryBytes, options.maxEntryBytes),
  };
}

function changed(
  limit: keyof TenantLimits,
  before: number | undefined,
  change: number | false | undefined,
): TenantLimits {
  const maximum = change ?? before;
  return maximum === undefined || maximum === false ? {} : { [limit]: maximum };
}
