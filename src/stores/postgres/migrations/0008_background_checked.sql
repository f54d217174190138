-- statements
alter table :schema.keys validate constraint keys_check2;
drop index concurrently if exists :schema.keys_unfinished;
