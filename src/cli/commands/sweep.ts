import { storableText } from '../../core/storable-text.js'
import { holderGone, outcomeUnknown } from '../../core/system-answers.js'
import type { Connection } from '../../stores/postgres/connections/connection.js'
import { translated } from '../../stores/postgres/driver-errors.js'
import { answerValues } from '../../stores/postgres/queries/key-row.js'
import { noted } from '../../stores/postgres/queries/together.js'
import { tablesOf } from '../../stores/postgres/tables.js'
import { agreed, atDesk, type ChangeOptions, type Desk, newChange, noteOf, type Report } from '../command.js'
import type { Registered } from '../registered.js'
import { many } from '../words.js'

interface SweepCounts {
  readonly pending: number
  readonly failed: number
  readonly parked: number
}

export const sweep: Registered = (world, done) =>
  newChange('sweep', 'Ends the wait for holders that are gone, as each key says: rerun, store or park.')
    .addHelpText('after', '\nIt reads the whole table. Keys that somebody has locked are left for the next\ntime.')
    .action(async (options: ChangeOptions) => done(await atDesk(world, options, (desk) => swept(desk, options))))

async function swept({ world, connection, operator, schema }: Desk, options: ChangeOptions): Promise<Report> {
  const { stuck } = await operator.keysCount()
  if (stuck.count > 0) await agreed(world, options, `Sweep ${many(stuck.count, 'key')} whose lease is over?`)
  const counts =
    stuck.count > 0 ? await sweepOnce(connection, schema, noteOf(world, 'swept', options)) : { pending: 0, failed: 0, parked: 0 }
  const { pending, failed, parked } = counts
  return { data: counts, lines: [`${many(pending, 'key')} may run again, ${failed} failed, ${parked} parked: outcome unknown.`] }
}

/**
 * Each key past its lease becomes what its author said. Time and state are asked for in the statement itself, so that a holder that
 * comes back in the last moment keeps its key; the fence rises, so that one that comes later cannot write.
 */
async function sweepOnce(connection: Connection<unknown>, schema: string, note: string): Promise<SweepCounts> {
  const tables = tablesOf(schema, true)
  const answer = (value: string) => `case when keys.after_failure = 'rerun' then null else ${value} end`
  const write = `
    update ${tables.keys}
    set state = case keys.after_failure when 'rerun' then 'pending' when 'store' then 'failed' else 'parked' end,
        waiting = keys.after_failure = 'rerun', fence = keys.fence + 1, locked_until = null, reason = $1,
        due_at = case when keys.after_failure = 'rerun' then clock_timestamp() else keys.due_at end,
        answer_status = ${answer('$2::smallint')}, answer_headers = ${answer('$3::text')},
        answer_body = ${answer('$4::bytea')}, answer_omitted_bytes = ${answer('$5::integer')},
        expires_at = greatest(keys.expires_at, clock_timestamp() + interval '1 hour')
    from (
      select tenant, id from ${tables.keys} where state = 'processing' and locked_until <= clock_timestamp()
      order by tenant, id for update skip locked
    ) as gone
    where keys.tenant = gone.tenant and keys.id = gone.id and keys.state = 'processing' and keys.locked_until <= clock_timestamp()
    returning keys.tenant, keys.id, keys.incarnation, keys.fence, keys.state, keys.reason`
  const count = (state: string) => `count(*) filter (where state = '${state}')::integer as ${state}`
  const text = noted(
    tables,
    write,
    { what: `case state when 'pending' then 'released' else state end`, detail: `reason || ' (' || $6::text || ')'` },
    `${count('pending')}, ${count('failed')}, ${count('parked')}`,
  )
  try {
    const [row] = await connection.query(text, [holderGone, ...answerValues(outcomeUnknown), storableText(note)])
    return row as unknown as SweepCounts
  } catch (error) {
    throw translated(error, schema)
  }
}
