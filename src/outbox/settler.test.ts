import { expect, test } from 'vitest'
import { OncekeyError } from '../core/errors.js'
import type { OutboxStore } from '../core/store.js'
import { manualClock } from '../testing/manual-clock.js'
import { settler } from './settler.js'

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Settles jobs by name, and keeps a steady stream of others going: with each statement comes another one. */
function setup({ streamed = 50, statementMs = 0 } = {}) {
  const clock = manualClock(0)
  const statements: string[][] = []
  const ends = new Map<string, unknown>()
  const jobsSettle: OutboxStore['jobsSettle'] = async ({ jobs }) => {
    clock.advance(statementMs)
    const ids = jobs.map(({ id }) => id)
    statements.push(ids)
    if (statements.length < streamed) add(`streamed ${statements.length}`)
    await turn()
    if (ids.includes('bad')) throw new OncekeyError('store_failed', 'refused')
    return jobs.map(() => 'done')
  }
  const settle = settler({ jobsSettle } as OutboxStore, clock)
  function add(id: string, until = 1_000_000) {
    settle({
      settlement: { tenant: 't', id, token: 'token', as: 'delivered' } as never,
      until,
      done: (error) => void ends.set(id, error ?? 'done'),
    })
  }
  const ended = async () => {
    while (statements.length < streamed) await turn()
    await turn()
    await turn()
  }
  return { add, ends, statements, ended }
}

test('a job that the store refuses, and the others of its batch, are settled while more keep coming', async () => {
  const { add, ends, statements, ended } = setup()
  for (const id of ['bad', 'good', 'better']) add(id)
  await ended()
  expect(ends.get('bad')).toMatchObject({ code: 'store_failed' })
  expect([ends.get('good'), ends.get('better')]).toEqual(['done', 'done'])
  const last = Math.max(...['bad', 'good', 'better'].map((id) => statements.findLastIndex((ids) => ids.includes(id))))
  expect(last).toBeLessThan(8)
  // Those that keep coming do not wait for them either.
  expect([...ends.values()].filter((end) => end === 'done').length).toBeGreaterThan(20)
})

test('one whose lease has ended meanwhile is not sent any more', async () => {
  const { add, ends, statements, ended } = setup({ statementMs: 10 })
  for (const id of ['bad', 'good', 'late']) add(id, 15)
  await ended()
  expect(statements.filter((ids) => ids.includes('late'))).toHaveLength(1)
  expect(ends.get('late')).toMatchObject({ code: 'store_failed' })
})
