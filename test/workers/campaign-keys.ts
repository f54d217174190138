import type pg from 'pg'
import { keyId } from '../../src/index.js'

export interface SeededKey {
  readonly key: string
  readonly state: 'pending' | 'processing' | 'complete' | 'failed' | 'parked'
  /** Complete or failed long ago, and past its retention. */
  readonly expired?: boolean
  /** Left to workers, and never claimed. */
  readonly async?: boolean
}

/** Puts keys into the table as if requests had left them there. */
export async function seedKeys(pool: pg.Pool, tenant: string, scope: string, keys: readonly SeededKey[]): Promise<void> {
  const rows = keys.map(({ key, state, expired = false, async = false }) => ({
    ...{ id: keyId({ tenant, scope, key }), key, state, expired, async, ended: !['pending', 'processing'].includes(state) },
    request: JSON.stringify({ id: key }),
  }))
  await pool.query(
    `insert into oncekey.keys (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, async, waiting, request,
                               created_at, due_at, locked_until, expires_at, reap_after, answer_status, answer_headers)
     select $1, id, $2, key, state, gen_random_uuid(), gen_random_uuid(), case when async then 0 else 1 end, 'rerun', async,
            state = 'pending', convert_to(request, 'UTF8'), time - interval '1 hour', time,
            case when state = 'processing' then time end, expiry, expiry, case when ended then 200 end, case when ended then '[]' end
     from json_to_recordset($3::json) as seed (id uuid, key text, state text, expired boolean, async boolean, ended boolean, request text),
          lateral (select clock_timestamp() as time) as clock,
          lateral (select case when expired then time - interval '1 minute' else time + interval '1 day' end as expiry) as retention`,
    [tenant, scope, JSON.stringify(rows)],
  )
}
