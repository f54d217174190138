import type { KeyState, Lease } from '../../../core/record.js'
import type { AdvanceResult, JobRecord, StepRecord } from '../../../core/store.js'
import { type BatchRows, batchRows } from '../batching/batch-rows.js'
import type { Queryable, Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { patience } from './key-claim.js'
import { audited, noted, together } from './together.js'

type Value = string | number | Uint8Array | null

export interface FencedWrite {
  readonly lease: Lease
  readonly state: KeyState
  /** In the order of the parameters. */
  readonly values: readonly Value[]
  /** Recorded in the same commit. */
  readonly steps?: readonly StepRecord[] | undefined
  readonly jobs?: readonly JobRecord[] | undefined
}

export interface FencedWriter<Params> {
  one(db: Queryable, params: Params): Promise<AdvanceResult>
  /** In one statement. Undefined for a row that was written before, or that is lost: ask about it alone. */
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
  const pointAfter = (lastStep: string) => `, recovery_point = coalesce(${lastStep}, recovery_point)`
  const withSteps = together(tables, { write: write(pointAfter(`$${count + 1}::text`)), parameters: count + 1, noted: note })
  const plainRows = heldRows()
  const batch = `with ${heldIn(plainRows)}done as (${writeMany()}
    )${audited(tables, 'done', note)}
    select ${writtenIds} from done`
  const rowsWithSteps = heldRows({ last_step: 'text' })
  const batchWithSteps = together(tables, {
    before: heldIn(rowsWithSteps),
    write: writeMany(pointAfter('held.last_step')),
    parameters: rowsWithSteps.parameters,
    noted: note,
    columns: writtenIds,
  })
  const repeated = `select from ${keys} where ${lease} and state = $6`

  return {
    async one(db, params) {
      const { steps = [], jobs = [], ...written } = writeOf(params)
      const held = leaseValues(written)
      const plain = steps.length === 0 && jobs.length === 0
      const { text, values } = plain ? { text: alone, values: [] } : withSteps([{ id: written.lease.id, steps, jobs }])
      const done = await db.query(text, [...held, ...written.values, ...(plain ? [] : [lastOf(steps)]), ...values], true)
      if (done.length > 0) return 'done'
      // The same write again, because its acknowledgement was lost? Then the row is as it was left.
      const before = await db.query(repeated, held)
      return before.length > 0 ? 'repeated' : 'lost'
    },

    async many(db, params) {
      const writes = params.map(writeOf)
      const rows = writes.map((written) => [...leaseValues(written), ...written.values, lastOf(written.steps)])
      const along = writes.map(({ lease, steps = [], jobs = [] }) => ({ id: lease.id, steps, jobs }))
      const plain = along.every(({ steps, jobs }) => steps.length === 0 && jobs.length === 0)
      const columns = (plain ? plainRows : rowsWithSteps).valuesOf(rows, (row, column) => row[column] as Value)
      const { text, values } = plain ? { text: batch, values: [] } : batchWithSteps(along)
      const [{ ids }] = (await db.query(text, [...columns, ...values], true)) as [Row]
      const done = new Set((ids as string | null)?.split(' '))
      return rows.map(([, id]) => (done.has(id as string) ? 'done' : undefined))
    },
  }

  /** In the order of the primary key, so that batches of several processes do not lock each other out. */
  function heldRows(more: Readonly<Record<string, string>> = {}): BatchRows {
    return batchRows({ ...leaseTypes, ...parameters, ...more }, `, ${patience} order by tenant, id`)
  }

  function heldIn({ rows }: BatchRows): string {
    return `held as materialized (
      ${rows}
    ), `
  }

  /** Of a row that somebody has locked it loses patience, and each is asked for alone. */
  function writeMany(more = ''): string {
    return `
      update ${keys} as key set state = held.state, locked_until = null, ${assignments(valuesBy(names, (name) => `held.${name}`))}${more}
      from held
      where key.tenant = held.tenant and key.id = held.id and key.incarnation = held.incarnation and key.fence = held.fence
        and key.owner = held.owner and key.state = 'processing'
      returning key.tenant, key.id, key.incarnation, key.fence, key.state, key.reason`
  }
}

const writtenIds = `string_agg(id::text, ' ') as ids`

function lastOf(steps: readonly StepRecord[] = []): string | null {
  return steps.at(-1)?.name ?? null
}

function valuesBy<Name extends string>(names: readonly Name[], sql: (name: Name, index: number) => string): Record<Name, string> {
  return Object.fromEntries(names.map((name, index) => [name, sql(name, index)])) as Record<Name, string>
}

function leaseValues({ lease, state }: Pick<FencedWrite, 'lease' | 'state'>): [string, string, string, number, string, string] {
  return [lease.tenant, lease.id, lease.incarnation, lease.fence, lease.owner, state]
}
