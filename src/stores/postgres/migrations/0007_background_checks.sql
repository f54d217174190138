-- breaking
-- From here on each row says when it is due and whether it waits. Processes of the release before do not know of it, and fail.

-- First, because it locks the table: nobody writes the rows below any more.
alter table :schema.keys alter column due_at drop default;
-- The few rows since 0006, found by the indexes keys_unfinished and keys_waiting.
update :schema.keys set waiting = true where state = 'pending' and not waiting;
update :schema.keys set waiting = false where waiting and state <> 'pending';
update :schema.keys set due_at = statement_timestamp() where state = 'processing' and due_at = '-infinity';
-- Not valid: for now it is only about new rows. The name is the one that Postgres gives it.
alter table :schema.keys drop constraint if exists keys_check2;
alter table :schema.keys add constraint keys_check2 check (waiting = (state = 'pending')) not valid;
