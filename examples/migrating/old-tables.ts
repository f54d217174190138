// Where keys were kept before: two kinds of tables that people make by hand.
import type { Request } from 'express'
import type { Pool } from 'pg'
import type { Earlier } from './in-front.js'

export const oldTables = `
  create table if not exists idempotency_keys (
    id bigserial primary key,
    created_at timestamptz not null default now(),
    idempotency_key text not null,
    last_run_at timestamptz not null default now(),
    locked_at timestamptz default now(),
    request_method text not null,
    request_params jsonb not null,
    request_path text not null,
    response_code int,
    response_body jsonb,
    recovery_point text not null,
    user_id bigint not null,
    unique (user_id, idempotency_key)
  );
  create table if not exists idempotent_responses (
    key text primary key,
    status int not null,
    response jsonb not null,
    created_at timestamptz not null default now()
  )`

export interface KeysTableOptions {
  userOf(request: Request): string
  /**
   * Whether processes with the old code may still take requests. `'running'`: each key is taken in the old table too, so that it belongs to
   * one of the two systems, whichever came first. `'gone'`: the table is only read.
   */
  oldProcesses: 'running' | 'gone'
}

/** The table with locked_at, recovery_point and response_code. */
export function keysTable(pool: Pool, { userOf, oldProcesses }: KeysTableOptions) {
  return async (request: Request, key: string): Promise<Earlier> => {
    const user = userOf(request)
    // The unique index decides. A lock that never runs out keeps the old code, and its completer, from our rows.
    if (oldProcesses === 'running') {
      await pool.query(
        `insert into idempotency_keys (user_id, idempotency_key, request_method, request_path, request_params, recovery_point, locked_at)
         values ($1, $2, $3, $4, '{}', 'oncekey', '9999-12-31') on conflict (user_id, idempotency_key) do nothing`,
        [user, key, request.method, request.path],
      )
    }
    // A second statement, so that it sees a row that was committed while the first one waited for it.
    const { rows } = await pool.query<{ recovery_point: string; response_code: number | null; response_body: unknown }>(
      'select recovery_point, response_code, response_body from idempotency_keys where user_id = $1 and idempotency_key = $2',
      [user, key],
    )
    const [row] = rows
    if (!row || row.recovery_point === 'oncekey') return { kind: 'unknown' }
    if (row.response_code === null) return { kind: 'unfinished' }
    return { kind: 'finished', status: row.response_code, body: row.response_body }
  }
}

/** The table with a key and its response, written when the work is done: nobody can see what is under way, so only when the old code is gone. */
export function responsesTable(pool: Pool) {
  return async (_request: Request, key: string): Promise<Earlier> => {
    const { rows } = await pool.query<{ status: number; response: unknown }>(
      'select status, response from idempotent_responses where key = $1',
      [key],
    )
    const [row] = rows
    return row ? { kind: 'finished', status: row.status, body: row.response } : { kind: 'unknown' }
  }
}
