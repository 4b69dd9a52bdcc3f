/**
 * Checked by the compiler, never run: this package's contract and pi 0.87.1's are the same, in both directions.
 */
import type * as pi from "@earendil-works/pi-agent-core";
import type * as piContext from "@earendil-works/pi-agent-core/harness/context";
import type * as piSession from "@earendil-works/pi-agent-core/harness/session";
import type * as ours from "../../src/index.ts";

/** Fails to compile unless each type can be used as the other. */
type Same<TOurs extends TPi, TPi extends TTheirs, TTheirs = TOurs> = [TOurs, TPi];

export type Interchangeable = [
  Same<ours.Storage, piSession.Storage>,
  Same<ours.Session, piSession.Session>,
  Same<ours.SessionRepo, piSession.SessionRepo>,
  Same<ours.SessionMutation, piSession.SessionMutation>,
  Same<ours.SessionMutator, piSession.SessionMutator>,
  Same<ours.SessionReader, piSession.SessionReader>,
  Same<ours.SessionMetadata, piSession.SessionMetadata>,
  Same<ours.Branch, piSession.Branch>,
  Same<ours.Entry, piSession.Entry>,
  Same<ours.NewEntry, piSession.NewEntry>,
  Same<ours.EntryStructure, piSession.EntryStructure>,
  Same<ours.EntryProjector, piSession.EntryProjector>,
  Same<ours.Write, piSession.Write>,
  Same<ours.CommitResult, piSession.CommitResult>,
  Same<ours.CommittedWrite, piSession.CommittedWrite>,
  Same<ours.UsageRow, piSession.UsageRow>,
  Same<ours.SessionStats, piSession.SessionStats>,
  Same<ours.ForkOptions, piSession.ForkOptions>,
  Same<ours.StorageBranchScan, piSession.StorageBranchScan>,
  Same<ours.EntryScan, piSession.EntryScan>,
  Same<ours.UsageScan, piSession.UsageScan>,
  Same<ours.EntryQuery, piSession.EntryQuery>,
  Same<ours.Value<string>, piSession.Value<string>>,
  Same<ours.ValueList<string>, piSession.ValueList<string>>,
  Same<ours.StoredValue<number>, piSession.StoredValue<number>>,
  Same<ours.LaneConfiguration, piSession.LaneConfiguration>,
  Same<ours.LaneState, piSession.LaneState>,
  Same<ours.OperationResult, piSession.OperationResultRecord>,
  Same<ours.PendingEntry, piSession.PendingEntry>,
  Same<ours.AgentMessage, pi.AgentMessage>,
  Same<ours.Context, piContext.Context>,
];

type Usable<TOurs extends TPi, TPi> = TOurs;

export type Implementations = [
  Usable<ours.PgStorage, piSession.Storage>,
  Usable<ours.PgSession, piSession.Session>,
  Usable<
    ours.PgSessionRepo,
    piSession.SessionRepo<ours.PgSessionMetadata, ours.PgSessionCreateOptions, ours.PgSessionListOptions>
  >,
  Usable<ours.PgSessionRepo, piSession.SessionRepo>,
];

export type Different = [
  // @ts-expect-error An entry is more than its structure.
  Same<ours.EntryStructure, piSession.Entry>,
  // @ts-expect-error A reader cannot commit.
  Usable<ours.SessionReader, piSession.SessionMutation>,
];
