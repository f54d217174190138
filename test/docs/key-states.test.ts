// The picture of a key's states, and the table below it, show the ways that there are, and no others.
import { beforeAll, expect, test } from 'vitest'
import { isExpired, type Lease } from '../../src/core/record.js'
import type { KeyClaim, KeyStore, Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { fromPg, type PostgresOperator, postgresOperator } from '../../src/stores/postgres/index.js'
import { manualClock } from '../../src/testing/index.js'
import { aClaim, again, anAnswer, hour, leaseMs, oneDay } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { read, section } from './pages.js'

const database = useDatabase()

/** One key, and what can be done to it. */
interface World {
  readonly store: Pick<Store, keyof KeyStore | 'upkeep'>
  readonly claim: KeyClaim
  advance(ms: number): Promise<void> | void
  lease?: Lease
}

const holder = crypto.randomUUID()

/** What a holder does with its lease, if there is one. It may be over, or somebody else's by now. */
const held = (write: (lease: Lease, world: World) => Promise<unknown>) => (world: World) =>
  world.lease ? write(world.lease, world) : undefined

const moves: Record<string, (world: World) => Promise<unknown> | unknown> = {
  claim: (world) => take(world, false),
  'claim of a worker': (world) => take(world, true),
  enqueue: ({ store, claim }) => store.keyEnqueue(again(claim, { request: new Uint8Array() })),
  finish: held((lease, { store }) => store.keyFinish({ lease, state: 'complete', answer: anAnswer, retention: oneDay })),
  fail: held((lease, { store }) => store.keyFinish({ lease, state: 'failed', answer: anAnswer, retention: oneDay })),
  release: held((lease, { store }) => store.keyRelease({ lease })),
  park: held((lease, { store }) => store.keyPark({ lease, answer: anAnswer, reason: 'a test' })),
  heartbeat: held((lease, { store }) => store.keyHeartbeat({ leases: [{ ...lease, leaseMs }] })),
  sweep: ({ store }) => store.upkeep?.keysSweep({ holder, turnMs: 1_000, limit: 100 }),
  'time out': ({ store }) => store.upkeep?.keysTimeOut({ limit: 100 }),
  reap: ({ store }) => store.keyReap({ limit: 100 }),
  'lease over': ({ advance }) => advance(2 * leaseMs),
  'days later': ({ advance }) => advance(100 * hour),
}

async function take(world: World, worker: boolean): Promise<void> {
  const verdict = await world.store.keyClaim(again(world.claim, { worker }))
  if (verdict.kind === 'execute') world.lease = verdict.lease
}

async function look({ store, claim }: World) {
  const record = await store.keyRead(claim)
  const sighting = record && (await store.keyReadById({ tenant: claim.tenant, id: record.id }))
  if (!sighting || isExpired(sighting.record, sighting.now)) return { state: 'absent', fence: 0, record: undefined, now: 0 }
  const { state, fence } = sighting.record
  return { state: state as string, fence, ...sighting }
}

/** All that the future of a key depends on. */
async function situationOf(world: World): Promise<string> {
  const { state, fence, record, now } = await look(world)
  const times = record ? [(record.leaseUntil ?? now) > now, record.expiresAt > now, record.createdAt + 100 * hour > now] : []
  return JSON.stringify([state, times, fence === 0, world.lease?.fence === fence, record?.async, record?.request !== null])
}

/** The way that the last of these moves leads, if it leads anywhere: a take-over leads from a state to itself. */
async function wayOf(world: World, names: readonly string[]): Promise<string | undefined> {
  for (const name of names.slice(0, -1)) await moves[name]?.(world)
  const before = await look(world)
  await moves[names.at(-1) as string]?.(world)
  const after = await look(world)
  return before.state === after.state && before.fence === after.fence ? undefined : `${before.state} → ${after.state}`
}

interface Path {
  readonly names: readonly string[]
  readonly changes: Partial<KeyClaim>
}

function inMemory({ changes }: Path): World {
  const clock = manualClock()
  return { store: memoryStore({ clock }), claim: aClaim(changes), advance: (ms) => clock.advance(ms) }
}

/** For each way that a key can go by itself, the shortest moves that lead there. */
async function explore(changes: Partial<KeyClaim>, found: Map<string, Path>): Promise<void> {
  const situations = new Set<string>()
  for (let paths: Path[] = [{ names: [], changes }]; paths.length > 0; ) {
    const next: Path[] = []
    for (const path of paths.flatMap(({ names }) => Object.keys(moves).map((name) => ({ names: [...names, name], changes })))) {
      const world = inMemory(path)
      const way = await wayOf(world, path.names)
      if (way && !found.has(way)) found.set(way, path)
      const situation = await situationOf(world)
      if (!situations.has(situation)) next.push(path)
      situations.add(situation)
    }
    paths = next
  }
}

/** What a person may do to a key, whatever its state. */
const words: Record<string, (operator: PostgresOperator, seen: Parameters<PostgresOperator['keyRetry']>[0]) => Promise<unknown>> = {
  retry: (operator, seen) => operator.keyRetry(seen, { note: 'a test' }),
  release: (operator, seen) => operator.keyReleaseByHand(seen, { note: 'a test', fromLiveHolder: true, rerun: true }),
  'resolve as did-not-happen': (operator, seen) => operator.keyResolve(seen, { resolution: { as: 'did-not-happen' }, by: 'a test' }),
  'resolve as failed': (operator, seen) =>
    operator.keyResolve(seen, { resolution: { as: 'failed', answer: anAnswer, retention: oneDay }, by: 'a test' }),
}

const explored = new Map<string, Path>()
const byHand = new Set<string>()

let postgres: Pick<World, 'store' | 'advance'> & { readonly operator: PostgresOperator }
const onPostgres = (changes: Partial<KeyClaim>) => ({ ...postgres, claim: aClaim(changes) })

beforeAll(async () => {
  const { store, advance } = await postgresHarness(fromPg(database.pool))
  postgres = { store, advance, operator: postgresOperator(fromPg(database.pool)) }
  for (const afterFailure of ['rerun', 'store', 'park'] as const) await explore({ afterFailure }, explored)
  const reached = new Map([...explored].map(([way, path]) => [way.split(' → ')[1] as string, path]))
  reached.delete('absent')
  for (const [state, { names, changes }] of reached) {
    for (const word of Object.values(words)) {
      const world = onPostgres(changes)
      await wayOf(world, names)
      const record = await world.store.keyRead(world.claim)
      if (!record) throw new Error(`nothing is left of ${names.join(', ')}`)
      await word(world.operator, record)
      const after = await look(world)
      if (after.state !== state) byHand.add(`${state} → ${after.state}`)
    }
  }
})

const drawn = () => {
  const picture = read('docs/images/key-states.svg')
  return {
    states: [...picture.matchAll(/data-state="(\w+)"/g)].map(([, state]) => state),
    ways: [...picture.matchAll(/data-from="(\w+)" data-to="(\w+)"/g)].map(([, from, to]) => `${from} → ${to}`),
  }
}
const told = () =>
  [...section('docs/guide/how-a-key-lives.md', 'States').matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map(([, a, b]) => `${a} → ${b}`)

test('the picture has the states of a record, and absent', () => {
  const [, union = ''] = /export type KeyState = (.*)/.exec(read('src/core/record.ts')) ?? []
  const states = [...union.matchAll(/'(\w+)'/g)].map(([, state]) => state)
  expect(states.length).toBeGreaterThan(3)
  expect(drawn().states.sort()).toEqual(['absent', ...states].sort())
})

test('the picture has every way that a key can go, by itself and by hand, and no other', () => {
  expect(drawn().ways.sort()).toEqual([...new Set([...explored.keys(), ...byHand])].sort())
})

test('the table has the ways of the picture', () => {
  expect(told().sort()).toEqual(drawn().ways.sort())
})

test('keys go the same ways on Postgres', async () => {
  for (const [way, { names, changes }] of explored) expect([names, await wayOf(onPostgres(changes), names)]).toEqual([names, way])
})
