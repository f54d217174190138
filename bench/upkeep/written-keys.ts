import type pg from 'pg'

/**
 * Writes keys as requests do, in batches: a claim inserts, a finish updates in place. Their retention is short, or over from the start, so
 * that nothing but those two writes shapes the table.
 */
export async function writeKeys(client: pg.ClientBase, count: number, { expireInSeconds }: { expireInSeconds: number }): Promise<void> {
  const body = Buffer.alloc(300, 'x')
  const batch = 64
  for (let written = 0; written < count; written += batch) {
    await client
      .query(
        `with inserted as (
         insert into oncekey.keys (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, fingerprint,
                                   created_at, locked_until, due_at, expires_at, reap_after)
         select 'expired', gen_random_uuid(), 'orders.create', gen_random_uuid()::text, 'processing', gen_random_uuid(), gen_random_uuid(),
                1, 'rerun', decode(repeat('ab', 41), 'hex'), time, time, time, time + $2 * interval '1 second', time + $2 * interval '1 second'
         from generate_series(1, $1), lateral (select clock_timestamp() as time) as clock
         returning id)
       select id from inserted`,
        [Math.min(batch, count - written), expireInSeconds],
      )
      .then(({ rows }) =>
        client.query(
          `update oncekey.keys set state = 'complete', locked_until = null, answer_status = 201, answer_headers = '[]', answer_body = $2
         where tenant = 'expired' and id = any($1)`,
          [rows.map(({ id }) => id), body],
        ),
      )
  }
}

export async function sizes(client: pg.ClientBase): Promise<{ heapBytes: number; indexBytes: number; rows: number }> {
  const { rows } = await client.query(`
    select pg_table_size('oncekey.keys')::float8 as heap, pg_indexes_size('oncekey.keys')::float8 as index,
      (select count(*)::float8 from oncekey.keys) as rows`)
  return { heapBytes: rows[0].heap, indexBytes: rows[0].index, rows: rows[0].rows }
}
