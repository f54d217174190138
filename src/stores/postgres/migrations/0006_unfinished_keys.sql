-- batches
-- Keys of the release before that wait, or that are held. Rows that others have locked are left to 0007.
with found as (
  select tenant, id from :schema.keys where state = 'pending' and not waiting
  limit 500 for no key update skip locked
)
update :schema.keys as keys set waiting = true from found where keys.tenant = found.tenant and keys.id = found.id returning keys.id;

with found as (
  select tenant, id from :schema.keys where state = 'processing' and due_at = '-infinity'
  limit 500 for no key update skip locked
)
update :schema.keys as keys set due_at = statement_timestamp() from found where keys.tenant = found.tenant and keys.id = found.id returning keys.id;
