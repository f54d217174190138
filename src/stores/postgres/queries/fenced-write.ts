import type { KeyState, Lease } from '../../../core/record.js'
import type { AdvanceResult, JobRecord, StepRecord } from '../../../core/store.js'
import { arrayLiteral } from '../batching/array-literal.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { audited, noted, together, togetherValues } from './together.js'

type Value = string | number | Uint8Array | null

export interface FencedWrite {
  readonly lease: Lease
  readonly state: KeyState
  /** In the order of the parameters. */
  readonly values: readonly Value[]
  readonly steps?: readonly StepRecord[] | undefined
  readonly jobs?: readonly JobRecord[] | undefined
}

export interface FencedWriter<Params> {
  one(db: Queryable, params: Params): Promise<AdvanceResult>
  /** In one statement. Undefined for a row that somebody has locked, that was written before, or that is lost: ask about it alone. */
  many(db: Queryable, params: readonly Params[]): Promise<readonly (AdvanceResult | undefined)[]>
}

const leaseTypes = { tenant: 'text', id: 'uuid', incarnation: 'uuid', fence: 'integer', owner: 'uuid', state: 'text' } as const

/**
 * A holder's last write: it ends the lease, and it changes nothing unless incarnation and fence are the newest. Nothing is
 * asked of the lease's time: a holder that is late but was not replaced may still finish.
 *
 * `assignments` are SQL over the parameters, whose types are given by name.
 */
export function fencedWrite<Params, Name extends string>(
  tables: Tables,
  {
    parameters,
    assignments,
    writeOf,
  }: {
    readonly parameters: Readonly<Record<Name, string>>
    assignments(value: Readonly<Record<Name, string>>): string
    writeOf(params: Params): FencedWrite
  },
): FencedWriter<Params> {
  const { keys } = tables
  const names = Object.keys(parameters) as Name[]
  const value = valuesBy(names, (name, index) => `$${index + 7}::${parameters[name]}`)
  const lease = 'tenant = $1 and id = $2::uuid and incarnation = $3::uuid and fence = $4 and owner = $5::uuid'
  const write = (more = '') => `
      update ${keys} set state = $6, locked_until = null, ${assignments(value)}${more}
      where ${lease} and state = 'processing'
      returning tenant, id, incarnation, fence, state, reason`
  const note = { what: `case state when 'pending' then 'released' else state end`, detail: 'reason' }
  const alone = noted(tables, write(), note)
  const count = 6 + names.length
  // The last step that comes along is the last one committed: the next holder sees by the recovery point that there are steps to read.
  const lastStep = `($${count + 1}::text::json -> -1) ->> 'name'`
  const withSteps = together(tables, write(`, recovery_point = coalesce(${lastStep}, recovery_point)`), count, note)
  const repeated = `select from ${keys} where ${lease} and state = $6`
  const batch = batchText()

  return {
    async one(db, params) {
      const { steps = [], jobs = [], ...written } = writeOf(params)
      const held = leaseValues(written)
      const plain = steps.length === 0 && jobs.length === 0
      const done = plain
        ? await db.query(alone, [...held, ...written.values])
        : await db.query(withSteps, [...held, ...written.values, ...togetherValues(steps, jobs)])
      if (done.length > 0) return 'done'
      // The same write again, because its acknowledgement was lost? Then the row is as it was left.
      const before = await db.query(repeated, held)
      return before.length > 0 ? 'repeated' : 'lost'
    },

    async many(db, params) {
      const rows = params.map((each) => {
        const written = writeOf(each)
        return [...leaseValues(written), ...written.values]
      })
      const columns = Array.from({ length: count }, (_, column) => arrayLiteral(rows.map((row) => row[column] as Value)))
      const done = new Set((await db.query(batch, columns)).map(({ id }) => id as string))
      return rows.map(([, id]) => (done.has(id as string) ? 'done' : undefined))
    },
  }

  /**
   * A row that somebody has locked is left out: it must not hold up its neighbours. The lock is taken by a subquery that the planner
   * cannot pull up, so that it can only go by the primary key, also in a table of which it knows nothing.
   */
  function batchText(): string {
    const types = { ...leaseTypes, ...parameters } as Readonly<Record<string, string>>
    const columns = Object.keys(types)
    const arrays = columns.map((name, index) => `$${index + 1}::text::${types[name]}[]`)
    return `
    with wanted as materialized (
      select * from unnest(${arrays.join(', ')}) as wanted (${columns.join(', ')})
    ), held as materialized (
      select wanted.* from wanted cross join lateral (
        select from ${keys} as key
        where key.tenant = wanted.tenant and key.id = wanted.id and key.incarnation = wanted.incarnation and key.fence = wanted.fence
          and key.owner = wanted.owner and key.state = 'processing'
        offset 0
        ${tables.skippingLocked}
      ) as key
      order by wanted.tenant, wanted.id
    ), done as (
      update ${keys} as key set state = held.state, locked_until = null, ${assignments(valuesBy(names, (name) => `held.${name}`))}
      from held
      where key.tenant = held.tenant and key.id = held.id and key.incarnation = held.incarnation and key.fence = held.fence
        and key.state = 'processing'
      returning key.tenant, key.id, key.incarnation, key.fence, key.state, key.reason
    )${audited(tables, 'done', note)}
    select id::text as id from done`
  }
}

function valuesBy<Name extends string>(names: readonly Name[], sql: (name: Name, index: number) => string): Record<Name, string> {
  return Object.fromEntries(names.map((name, index) => [name, sql(name, index)])) as Record<Name, string>
}

function leaseValues({ lease, state }: Pick<FencedWrite, 'lease' | 'state'>): [string, string, string, number, string, string] {
  return [lease.tenant, lease.id, lease.incarnation, lease.fence, lease.owner, state]
}
