/** Appends one message to something of its own, again and again. */
export type Lane = () => Promise<unknown>;

/** A place where a conversation can be kept. */
export interface AppendStore {
  /**
   * So many new conversations, each with a connection of its own where connections matter.
   *
   * @param messages that each of them has
   */
  openLanes(width: number, messages: number): Promise<Lane[]>;
  /** Whether nothing was written and the caller should try again. */
  isRefusal?(error: unknown): boolean;
  /** How often so far the server told somebody to try again. */
  repeats?(): number;
  close(): Promise<void>;
}
