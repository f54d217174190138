import type pg from 'pg'
import { waitUntil } from '../support/wait-until.js'
import { type Flow, type Told, tenant } from './flows.js'
import { limits, longestClaimMs, longestRunMs, recoveryMs } from './limits.js'
import type { Outside } from './outside.js'
import type { Service } from './service.js'

interface KeyRow {
  readonly scope: Flow
  readonly key: string
  readonly state: string
  readonly reason: string | null
  /** By what they are, and the ids of the jobs that still wait. */
  readonly effects: string[]
  readonly waiting: string[]
}

/** What is in the database of each key. Keys that left nothing but effects have no state. */
async function keyRows(pool: pg.Pool): Promise<KeyRow[]> {
  const { rows } = await pool.query<KeyRow>(
    `with effect as (select key, array_agg(what order by what) as effects from effects group by key),
       job as (select payload::json ->> 'key' as key, array_agg(id::text) as ids from oncekey.jobs group by 1),
       row as (select scope, key, state, reason from oncekey.keys where tenant = $1)
     select row.scope, coalesce(row.key, effect.key) as key, coalesce(row.state, 'none') as state, row.reason,
       coalesce(effect.effects, '{}') as effects, coalesce(job.ids, '{}') as waiting
     from row full join effect on effect.key = row.key left join job on job.key = coalesce(row.key, effect.key)`,
    [tenant],
  )
  return rows
}

/** The effects of a key that is complete. */
const whole: Partial<Record<Flow, string>> = { operation: 'finish,phase', local: 'local', consumer: 'consumer' }

/**
 * Nothing doubled, nothing lost, no answer changed: returns what is wrong, a line each. Every key has its own id, in all flows together.
 * `told` is all that clients were told.
 */
export async function violations(pool: pg.Pool, outside: Outside, told: readonly Told[]): Promise<string[]> {
  const rows = await keyRows(pool)
  return [...wrongEffects(rows, outside), ...wrongAnswers(rows, told)]
}

function wrongEffects(rows: readonly KeyRow[], outside: Outside): string[] {
  const charged = grouped([...outside.charges], ([, id]) => id)
  const delivered = grouped([...outside.jobs], ([, { key }]) => key)
  const runs = grouped(outside.runs, (id) => id)
  const of = ({ scope, key, state, effects }: KeyRow): string[] => {
    const wanted = state === 'complete' ? whole[scope] : undefined
    const ran = runs.get(key)?.length ?? 0
    return [
      ...(new Set(effects).size < effects.length ? [`doubled: ${effects}`] : []),
      ...(wanted !== undefined && effects.join() !== wanted ? [`has the effects ${effects.join() || 'none'}`] : []),
      ...((scope === 'store' || scope === 'park') && ran > 1 ? [`ran ${ran} times`] : []),
    ]
  }
  const outsideOf = ({ scope, key, state, waiting }: KeyRow): string[] => {
    if (scope !== 'operation' || state !== 'complete') return []
    const jobs = new Set([...waiting, ...(delivered.get(key) ?? []).map(([id]) => id)]).size
    const charges = charged.get(key)?.length ?? 0
    return [...(jobs === 1 ? [] : [`has ${jobs} jobs`]), ...(charges === 1 ? [] : [`was charged ${charges} times`])]
  }
  return rows.flatMap((row) => [...of(row), ...outsideOf(row)].map((what) => `${row.scope} ${row.key} (${row.state}): ${what}`))
}

function wrongAnswers(rows: readonly KeyRow[], told: readonly Told[]): string[] {
  const states = new Map(rows.map(({ key, state }) => [key, state]))
  const certain = told.filter(({ stored }) => stored)
  return [...grouped(certain, ({ flow, key }) => `${flow} ${key}`)].flatMap(([name, [first, ...more]]) => {
    const state = states.get(first?.key ?? '') ?? 'gone'
    return [
      ...(state === (first?.nonce === 'failed' ? 'failed' : 'complete')
        ? []
        : [`${name}: its client has an answer, but the key is ${state}`]),
      ...(more.every(({ nonce }) => nonce === first?.nonce) ? [] : [`${name}: its answer changed`]),
    ]
  })
}

/** Keys of requests that never ran, and that are held or parked all the same: `ran` has those that did. */
export async function parkedWithoutRun(pool: pg.Pool, ran: ReadonlySet<string>): Promise<string[]> {
  const rows = await keyRows(pool)
  return rows
    .filter(({ key, state }) => !ran.has(key) && ['parked', 'processing'].includes(state))
    .map(({ key, state }) => `${key}: ${state}`)
}

/** Requests that took longer than they may, or still do: a line each. `machineMs`: what the machine adds. */
export function late(told: readonly Told[], ran: ReadonlySet<string>, machineMs = 0): string[] {
  // A duplicate, and one that was told to come back, has only claimed. Unless its own work began, and was lost.
  const most = ({ key, kind, hasBegun = false }: Told) =>
    hasBegun || (ran.has(key) && kind !== 'in-progress' && kind !== 'replayed') ? longestRunMs : longestClaimMs
  return told
    .filter((one) => one.ms > most(one) + machineMs)
    .map(({ flow, key, kind, code, ms }) => `${flow} ${key}: ${code ?? kind} after ${Math.round(ms)} ms`)
}

export function p99(told: readonly Told[]): number {
  const sorted = told.map(({ ms }) => ms).sort((one, other) => one - other)
  return Math.round(sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0)
}

/** Waits until all requests of a service have ended that should, and returns them with those that still run. */
export async function allEnded(service: Service): Promise<Told[]> {
  const told: Told[] = []
  const until = performance.now() + longestRunMs
  await waitUntil('requests have ended, or are late', async () => {
    told.push(...(await service.ended()))
    return (await service.running()).length === 0 || performance.now() > until
  })
  return [...told, ...(await service.ended()), ...(await service.running())]
}

/** Retries each key as an honest client, until it has its last word. Returns all that clients were told, and the keys that got none in time. */
export async function retried(service: Service, keys: readonly (readonly [Flow, string])[]): Promise<{ told: Told[]; stuck: string[] }> {
  const told: Told[] = []
  const stuck: string[] = []
  const until = performance.now() + recoveryMs + limits.leaseMs
  const isDone = ({ kind, stored }: Told) => stored || kind === 'parked' || kind === 'replayed'

  async function retry(flow: Flow, id: string): Promise<void> {
    while (performance.now() < until) {
      const late = new Promise<readonly undefined[]>((resolve) => setTimeout(resolve, longestRunMs, [undefined]))
      const [one] = await Promise.race([service.requests([flow, { id }]), late])
      if (one) told.push(one)
      if (!one || isDone(one)) return one ? undefined : void stuck.push(`${flow} ${id}`)
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    stuck.push(`${flow} ${id}`)
  }
  await Promise.all(keys.map(([flow, id]) => retry(flow, id)))
  return { told, stuck }
}

/** At most three lines of a kind: what is wrong with a flow is wrong with each of its keys. */
export function inShort(lines: readonly string[]): string[] {
  const kinds = grouped(lines, (line) => line.replaceAll(/[a-z-]*\d[\w-]*/g, '').replace(/\b(rerun|store|park)\b/, ''))
  return [...kinds.values()].flatMap((alike) => (alike.length > 3 ? [...alike.slice(0, 3), `… and ${alike.length - 3} like that`] : alike))
}

/** What does not come in time is false, and no error: an invariant that is broken must not hide the next one. */
export async function comes(condition: () => Promise<boolean> | boolean, deadlineMs = recoveryMs): Promise<boolean> {
  return waitUntil('it comes', condition, deadlineMs).catch(() => false)
}

/** Waits until the pool of a service is idle, and returns what it is then. */
export async function idlePool(service: Service): Promise<string> {
  let words = ''
  await comes(async () => {
    const { total, idle, waiting } = await service.pool()
    words = total === idle && waiting === 0 ? 'idle' : `${total - idle} connections in use, ${waiting} waiting`
    return words === 'idle'
  })
  return words
}

function grouped<T>(all: readonly T[], by: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const one of all) {
    const group = groups.get(by(one))
    if (group) group.push(one)
    else groups.set(by(one), [one])
  }
  return groups
}
