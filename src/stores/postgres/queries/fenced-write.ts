import { storeTimeout } from '../../../core/errors.js'
import type { KeyState, Lease } from '../../../core/record.js'
import type { AdvanceResult, JobRecord, StepRecord } from '../../../core/store.js'
import { type BatchRows, batchRows, byColumn, type Columns, type Value } from '../batching/batch-rows.js'
import { askAlone } from '../batching/batcher.js'
import type { Bounded } from '../bounded.js'
import type { Row, SentValue } from '../connections/connection.js'
import type { Statements } from '../plans.js'
import type { Tables } from '../tables.js'
import { freeKey, onceUnlocked, thisKey } from './free-key.js'
import { patience } from './key-claim.js'
import { inKeyOrder } from './key-list.js'
import { isMarked, readStanding, standingOf } from './standing.js'
import { audited, idsOf, together as writtenTogether } from './together.js'

/** What every last write has. */
export interface LastWrite {
  readonly lease: Lease
  /** Recorded in the same commit. */
  readonly steps?: readonly StepRecord[] | undefined
  readonly jobs?: readonly JobRecord[] | undefined
}

export interface FencedWriter<Params> {
  one(db: Bounded, params: Params): Promise<AdvanceResult>
  /** In one statement. A row that was written before, or that is lost, is asked about alone. */
  many(db: Statements, params: readonly Params[]): Promise<readonly (AdvanceResult | typeof askAlone)[]>
}

const leaseColumns = {
  tenant: { type: 'text', of: ({ lease }: LastWrite) => lease.tenant },
  id: { type: 'uuid', of: ({ lease }: LastWrite) => lease.id },
  incarnation: { type: 'uuid', of: ({ lease }: LastWrite) => lease.incarnation },
  fence: { type: 'integer', of: ({ lease }: LastWrite) => lease.fence },
  owner: { type: 'uuid', of: ({ lease }: LastWrite) => lease.owner },
}

export interface FencedWriteParts<Params, Name extends string> {
  /** The state that the key has from then on. */
  stateOf(params: Params): KeyState
  /** What the write brings along, by name. */
  readonly columns: Readonly<Record<Name, Columns<Params>[string]>>
  /** SQL over those. */
  assignments(value: Readonly<Record<Name, string>>): string
}

/**
 * A holder's last write: it ends the lease, and it changes nothing unless incarnation and fence are the newest. Nothing is
 * asked of the lease's time: a holder that is late but was not replaced may still finish.
 */
export function fencedWrite<Params extends LastWrite, Name extends string>(
  tables: Tables,
  { stateOf, columns, assignments }: FencedWriteParts<Params, Name>,
): FencedWriter<Params> {
  const { keys } = tables
  const names = Object.keys(columns) as Name[]
  const held: Columns<Params> = { ...leaseColumns, state: { type: 'text', of: stateOf } }
  const changed: Columns<Params> = { state: held.state as Columns<Params>[string], ...columns }
  const all: Columns<Params> = { ...held, ...columns }
  const value = byColumn(names, (name, index) => `$${index + 8}::${columns[name].type}`)
  const lease = 'key.incarnation = $3::uuid and key.fence = $4 and key.owner = $5::uuid'
  const before = freeKey(tables, `${lease} and key.state = 'processing' and ${isMarked('$7')}`)
  const write = (more = '', returned = 'key.tenant, key.id, key.incarnation, key.fence, key.state, key.reason') => `
      update ${keys} as key set state = $6, locked_until = null, ${assignments(value)}${more}
      from free where ${thisKey}
      returning ${returned}`
  const note = { what: `case state when 'pending' then 'released' else state end`, detail: 'reason' }
  const alone = tables.audit
    ? `with ${before}, done as (${write()}
    )${audited(tables, 'done', note)}
    select from done`
    : `with ${before}${write('', 'key.id')}`
  const count = 7 + names.length
  // The last step that comes along is the last one committed: the next holder sees by the recovery point that there are steps to read.
  const pointAfter = (lastStep: string) => `, recovery_point = coalesce(${lastStep}, recovery_point)`
  const withSteps = writtenTogether(tables, {
    before,
    write: write(pointAfter(`$${count + 1}::text`)),
    parameters: count + 1,
    noted: note,
    returned: 'select from done',
  })
  const plainRows = batchRows<Params, string>('held', all)
  const batch = `with done as (${writeMany(plainRows)}
    )${audited(tables, 'done', note)}
    ${writtenIds(plainRows.parameters + 1)}`
  const rowsWithSteps = batchRows<Params, string>('held', { ...all, last_step: { type: 'text', of: lastOf } })
  const batchWithSteps = writtenTogether(tables, {
    write: writeMany(rowsWithSteps, pointAfter('held.last_step')),
    parameters: rowsWithSteps.parameters + 1,
    noted: note,
    returned: writtenIds(rowsWithSteps.parameters + 1),
  })
  const standing = standingOf(tables, lease, '$6', 'key.state = $7')

  return {
    async one(db, params) {
      const { steps = [], jobs = [] } = params
      const plain = isPlain(params)
      const { text, values } = plain ? { text: alone, values: [] } : withSteps([{ id: params.lease.id, steps, jobs }])
      const { mark = '' } = db
      const [state, ...changes] = valuesOf(changed, params)
      const sent = [
        ...valuesOf(leaseColumns, params),
        state,
        mark,
        ...changes,
        ...(plain ? [] : [lastOf(params)]),
        ...values,
      ] as SentValue[]
      const result = await onceUnlocked(db, async () => {
        if ((await db.query(text, sent, { often: true })).length > 0) return 'done'
        return readStanding(await db.query(standing, [...valuesOf(leaseColumns, params), mark, state] as SentValue[]))
      })
      if (result === 'locked') throw storeTimeout()
      return result
    },

    async many(db, params) {
      const rows = params.toSorted(byKey)
      const count = params.length
      const { text, values } = params.every(isPlain)
        ? { text: batch, values: [...plainRows.valuesOf(rows), count] }
        : together(params, [...rowsWithSteps.valuesOf(rows), count])
      const [{ ids }] = (await db.query(text, values, { often: true })) as [Row]
      if (ids === null) return params.map(() => 'done')
      const done = new Set((ids as string).split(' '))
      return params.map(({ lease }) => (done.has(lease.id) ? 'done' : askAlone))
    },
  }

  function together(params: readonly Params[], rows: Parameters<Statements['query']>[1]) {
    const { text, values } = batchWithSteps(params.map(({ lease, steps = [], jobs = [] }) => ({ id: lease.id, steps, jobs })))
    return { text, values: [...rows, ...values] }
  }

  /**
   * They are sent in the order of the primary key, so that batches of several processes, whose plans go by it unless the table is small, do not lock
   * each other out. At a locked row it loses patience, and each is asked for alone.
   */
  function writeMany({ source, value }: BatchRows<Params, string>, more = ''): string {
    return `
      update ${keys} as key set state = held.state, locked_until = null, ${assignments(value as Record<Name, string>)}${more}
      from ${source}, ${patience}
      where key.tenant = held.tenant and key.id = held.id and key.incarnation = held.incarnation and key.fence = held.fence
        and key.owner = held.owner and key.state = 'processing'
      returning key.tenant, key.id, key.incarnation, key.fence, key.state, key.reason`
  }
}

/** Null if all were written, as nearly always; else the ids of those that were. The parameter is how many were sent. */
function writtenIds(sent: number): string {
  return `select case when written.count < $${sent}::integer then ${idsOf('done')} end as ids
    from (select count(*) as count from done) as written`
}

const byKey = ({ lease: one }: LastWrite, { lease: other }: LastWrite) => inKeyOrder(one.tenant, one.id, other.tenant, other.id)

function lastOf({ steps = [] }: LastWrite): string | null {
  return steps.at(-1)?.name ?? null
}

/** Most bring nothing along. */
function isPlain({ steps, jobs }: LastWrite): boolean {
  return (steps === undefined || steps.length === 0) && (jobs === undefined || jobs.length === 0)
}

function valuesOf<Params>(columns: Columns<Params>, params: Params): Value[] {
  return Object.values(columns).map(({ of }) => of(params))
}
