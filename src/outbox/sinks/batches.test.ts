import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import type { Delivery, Job } from '../sink.js'
import { each, inBulk } from './batches.js'

const job = (id: string): Job => ({ id, tenant: 'acme', name: 'n', payload: null, group: null, attempt: 1, stagedAt: 0 })
const [a, b, c] = [job('a'), job('b'), job('c')]
const never = new Promise<never>(() => {})
const tooLate = new Error('too late')

/** A signal, and how many still listen to it. */
function setup() {
  const controller = new AbortController()
  const { signal } = controller
  return { signal, abort: () => controller.abort(tooLate), listeners: () => getEventListeners(signal, 'abort').length }
}

test('each job has its own outcome', async () => {
  const { signal, listeners } = setup()
  const refused = new Error('refused')

  const outcomes = await each(signal, [a, b, c], async ({ id }) => {
    if (id === 'b') throw refused
  })

  expect(outcomes).toEqual(['delivered', { error: refused }, 'delivered'])
  expect(listeners()).toBe(0)
})

test('when nobody waits any longer, what was acknowledged by then is delivered, and the rest is not', async () => {
  const { signal, abort, listeners } = setup()

  const outcomes = each(signal, [a, b], ({ id }) => (id === 'a' ? Promise.resolve() : never))
  await new Promise(setImmediate)
  expect(listeners()).toBe(1)
  abort()

  expect(await outcomes).toEqual(['delivered', { error: tooLate }])
  expect(listeners()).toBe(0)
})

test('nothing is sent for somebody who has given up before', async () => {
  const { signal, abort } = setup()
  abort()
  let sent = 0
  const send = async () => {
    sent += 1
    return []
  }

  await expect(each(signal, [a], send)).rejects.toBe(tooLate)
  await expect(inBulk(signal, [a], send)).rejects.toBe(tooLate)
  expect(sent).toBe(0)
})

test('a batch that goes well is sent once', async () => {
  const sent: string[][] = []
  const outcomes = await inBulk(setup().signal, [a, b], async (jobs) => {
    sent.push(jobs.map(({ id }) => id))
    return ['delivered', { error: 'no' }]
  })
  expect(outcomes).toEqual(['delivered', { error: 'no' }])
  expect(sent).toEqual([['a', 'b']])
})

test('a batch that fails is sent one by one, so that a job that is refused fails alone', async () => {
  const refused = new Error('refused')
  const send = async (jobs: readonly Job[]): Promise<Delivery[]> => {
    if (jobs.includes(b)) throw refused
    return jobs.map(() => 'delivered')
  }

  expect(await inBulk(setup().signal, [a, b, c], send)).toEqual(['delivered', { error: refused }, 'delivered'])
})

test('a batch that nobody waits for any longer is not sent one by one', async () => {
  const { signal, abort, listeners } = setup()
  let sent = 0
  const outcomes = inBulk(signal, [a, b], () => {
    sent += 1
    return never
  })
  abort()

  expect(await outcomes).toEqual([{ error: tooLate }, { error: tooLate }])
  expect(sent).toBe(1)
  expect(listeners()).toBe(0)
})
