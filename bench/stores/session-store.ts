import type { Session, SessionRepo, Storage } from "@earendil-works/pi-agent-core";

/** A place for sessions: ours, or one of pi's. */
export interface SessionStore {
  /** The sessions of a group; those of others are out of its sight. The same one for each call. */
  group(name: string): Promise<SessionGroup>;
  /** Whether nothing was written and the caller should try again. */
  isRefusal?(error: unknown): boolean;
  /** How often so far the server told somebody to try again. */
  repeats?(): number;
  close(): Promise<void>;
}

export interface SessionGroup {
  readonly repo: SessionRepo;
  /** What is below an open session. */
  storageOf(session: Session): Promise<Storage>;
  /** Adds closed empty sessions, however that goes fastest. */
  addSessions(count: number): Promise<void>;
}

/** Keeps one group per name. */
export function groupsOf(create: (name: string) => Promise<SessionGroup>): SessionStore["group"] {
  const groups = new Map<string, Promise<SessionGroup>>();
  return (name) => {
    let group = groups.get(name);
    if (group === undefined) {
      group = create(name);
      groups.set(name, group);
    }
    return group;
  };
}

/** What pi's session classes keep to themselves: a storage, or another session that has one. */
interface Hidden {
  readonly session?: Session;
  readonly storage?: Storage;
}

/** pi's scenarios ask for a storage, and its repositories show none. */
export function storageInside(session: Session): Storage {
  const { session: inner, storage } = session as unknown as Hidden;
  if (storage !== undefined) return storage;
  if (inner === undefined) throw new Error("pi's session has no storage inside");
  return storageInside(inner);
}
