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

/** The storage that pi's own session class keeps to itself; pi's scenarios ask for one, and most repositories show none. */
export function storageInside(session: Session): Storage {
  const { storage } = session as unknown as { storage: Storage };
  return storage;
}
