import type {
  Context,
  ForkOptions,
  Session,
  SessionCreateOptions,
  SessionMetadata,
  SessionRepo,
} from "@earendil-works/pi-agent-core";
import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";

/** Remembers which sessions were opened through it: pi's scenarios keep them to themselves. */
export class TrackingRepo implements SessionRepo {
  readonly opened: Session[] = [];
  readonly #repo: SessionRepo;

  constructor(repo: SessionRepo) {
    this.#repo = repo;
  }

  async create(options: SessionCreateOptions, context: Context): Promise<Session> {
    return this.#track(await this.#repo.create(options, context));
  }

  async open(metadata: SessionMetadata, context: Context): Promise<Session> {
    return this.#track(await this.#repo.open(metadata, context));
  }

  async fork(source: SessionMetadata, options: ForkOptions, context: Context): Promise<Session> {
    return this.#track(await this.#repo.fork(source, options, context));
  }

  list(_options: undefined, context: Context): Promise<SessionMetadata[]> {
    return this.#repo.list(undefined, context);
  }

  delete(metadata: SessionMetadata, context: Context): Promise<void> {
    return this.#repo.delete(metadata, context);
  }

  /** Closes everything that was opened. */
  async closeOpened(): Promise<SessionMetadata[]> {
    const opened = new Map(this.opened.splice(0).map((session) => [session.metadata.id, session]));
    for (const session of opened.values()) await session.close(BACKGROUND_CONTEXT);
    return [...opened.values()].map(({ metadata }) => metadata);
  }

  /** Closes and deletes everything that was opened. */
  async removeOpened(): Promise<void> {
    for (const metadata of await this.closeOpened()) await this.#repo.delete(metadata, BACKGROUND_CONTEXT);
  }

  #track(session: Session): Session {
    this.opened.push(session);
    return session;
  }
}
