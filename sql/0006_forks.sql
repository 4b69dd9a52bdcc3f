-- Ends a fork whose branch turns out not to be what was asked for, in a transaction that is sent without waiting for
-- answers in between.
create function {schema}.refuse_fork(problem text) returns void
language plpgsql
as $$
begin
  raise exception 'the session cannot be forked like that' using errcode = 'PS010', detail = problem;
end
$$;
