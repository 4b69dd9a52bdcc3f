/** Names one session in the database: the leading columns of every key. */
export interface SessionKey {
  readonly tenantId: string;
  readonly sessionId: string;
}

/** A {@link SessionKey} as values of columns. */
export function keyColumns({ tenantId, sessionId }: SessionKey): { tenant_id: string; session_id: string } {
  return { tenant_id: tenantId, session_id: sessionId };
}
