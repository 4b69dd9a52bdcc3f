-- What a walk along a branch looks for without reading what lies between. Both indexes are small: most entries are
-- messages, and few entries begin a run.

-- Of each run, the last (or first) entry of a type at which a scan stops.
create index entries_by_type on {schema}.entries (tenant_id, session_id, run, type, seq) where type <> 'message';

-- The children of an entry: at most one goes on with its run; the others each begin one.
create index entries_by_parent on {schema}.entries (tenant_id, session_id, parent_id, seq) where seq = run;
