-- Who may write a session. Each exclusive opening raises the epoch; a commit carries the epoch that its writer
-- opened the session at, and is refused once that has been overtaken.

alter table {schema}.sessions add column writer_epoch bigint not null default 0;
