import { expect, test } from 'vitest'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, leaseMs } from '../../src/testing/store-cases/store-case.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import type { ClaimerSettings } from './claimer.js'

const database = useDatabase()
const long = process.env.ONCEKEY_LONG === '1'
const count = long ? 10_000 : 300
const processes = long ? 20 : 8
const perProcess = 200 / processes

/** Starts the processes, lets them go together, and adds up what their claims came to. */
async function race(processes: number, settings: Omit<ClaimerSettings, 'url' | 'barrier'>) {
  await database.ensure('create table if not exists runs (key text not null)')
  await database.pool.query('truncate runs')
  const barrier = processes
  const gate = await database.pool.connect()
  await gate.query('select pg_advisory_lock($1)', [barrier])
  const children = Array.from({ length: processes }, () => startChild('races/claimer.ts', { ...settings, url: database.url, barrier }))
  for (const child of children) expect(await child.message()).toBe('ready')
  await gate.query('select pg_advisory_unlock($1)', [barrier])
  gate.release()

  const totals: Record<string, number> = {}
  for (const child of children) {
    for (const [kind, count] of Object.entries(await child.message<Record<string, number>>())) totals[kind] = (totals[kind] ?? 0) + count
  }
  const { rows } = await database.pool.query('select count(*)::integer as runs, count(distinct key)::integer as keys from runs')
  return { totals, ...(rows[0] as { runs: number; keys: number }) }
}

test(`runs one of 200 claims of one key that ${processes} processes send together`, { timeout: 120_000 }, async () => {
  const { totals, runs } = await race(processes, { keys: ['the-key'], claimersPerKey: perProcess, connections: perProcess })
  expect(runs).toBe(1)
  expect(totals.executed).toBe(1)
  expect((totals.replayed ?? 0) + (totals['in-progress'] ?? 0)).toBe(199)
})

test(`runs ${count} keys once each when ten claimers race for every one`, { timeout: 240_000 }, async () => {
  const keys = Array.from({ length: count }, (_, index) => `key-${index}`)
  const { totals, runs, keys: ran } = await race(5, { keys, claimersPerKey: 2, connections: 4 })
  expect({ runs, ran, executed: totals.executed }).toEqual({ runs: count, ran: count, executed: count })
  expect((totals.replayed ?? 0) + (totals['in-progress'] ?? 0)).toBe(9 * count)
})

test('gives each of 500 stale keys to one of two takers', async () => {
  const { advance } = await postgresHarness(fromPg(database.pool))
  const claims = Array.from({ length: 500 }, () => aClaim())
  // A busy machine may take longer for all of them than the limits that are there by default.
  const limit = { timeoutMs: 200_000 }
  const stores = [1, 2].map(() => postgresStore(fromPg(database.createPool({ max: 5 }), { connectTimeoutMs: false })))
  await Promise.all(claims.map((claim) => stores[0]?.keyClaim(claim, limit)))
  await advance(leaseMs + 1)
  const takes = await Promise.all(
    stores.map((store) => Promise.all(claims.map((claim) => store.keyClaim({ ...claim, owner: crypto.randomUUID() }, limit)))),
  )
  const winners = claims.map((_, index) => takes.filter((verdicts) => verdicts[index]?.kind === 'execute').length)
  expect(winners).toEqual(claims.map(() => 1))
})
