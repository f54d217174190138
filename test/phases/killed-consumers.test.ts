import { beforeAll, expect, test } from 'vitest'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { setup } from './setup.js'

const database = useDatabase()

beforeAll(() => database.pool.query('create table payments (message text not null)'))

const effects = async (message: string) =>
  (await database.pool.query<{ n: number }>('select count(*)::integer as n from payments where message = $1', [message])).rows[0]?.n

async function start(settings: { ids: string[]; deliveries: number; crashPoint?: number }) {
  const child = startChild('phases/consumer-process.ts', { url: database.url, ...settings })
  await child.message()
  return child
}

test('100 deliveries at once, to two processes with five connections each, have one effect', async () => {
  const children = await Promise.all([1, 2].map(() => start({ ids: ['hundred'], deliveries: 50 })))
  for (const child of children) child.send('go')
  const kinds = (await Promise.all(children.map((child) => child.message<string[]>()))).flat()
  expect(kinds.sort()).toEqual(['executed', ...Array(99).fill('replayed')])
  expect(await effects('hundred')).toBe(1)
})

/** The same consumer, in a process that lives. */
async function survivor() {
  const { once } = await setup(database, { storeTimeout: '60s' })
  return once.consumer('payments', { tenant: 't' }, async (tx, message) => {
    await tx.query('insert into payments (message) values ($1)', [message.id])
  })
}

/** Kills a process there, and delivers the message again to another one. */
async function killAt(crashPoint: number) {
  const id = `killed-${crashPoint}`
  const child = await start({ ids: [id], deliveries: 1, crashPoint })
  child.send('go')
  const died = await child.message().then(
    () => false,
    () => true,
  )
  const consumer = await survivor()
  // The server may still be at the last statement of the dead: then this waits for it, and does the work or finds it done.
  const { kind } = await consumer.handle({ id, body: null })
  return { died, found: { kind, effects: await effects(id), again: (await consumer.handle({ id, body: null })).kind } }
}

test('a process that is killed at whatever boundary leaves one effect after the redelivery', async () => {
  const results = await Promise.all([0, 1, 2, 3, 4, 5, 6].map(killAt))
  // Before it begins, begun, claimed, worked, written: nothing is left. Committed: all is. After that there is no boundary.
  expect(results.map(({ died }) => died)).toEqual([true, true, true, true, true, true, false])
  expect(results.map(({ found }) => found)).toEqual([
    ...Array(5).fill({ kind: 'executed', effects: 1, again: 'replayed' }),
    ...Array(2).fill({ kind: 'replayed', effects: 1, again: 'replayed' }),
  ])
})

/** One of two processes is killed while both work through the same messages; then all of them are delivered once more. */
async function killAmong(round: number) {
  const ids = Array.from({ length: 100 }, (_, index) => `round-${round}-${index}`)
  const done = async () => {
    const { rows } = await database.pool.query<{ message: string }>('select message from payments where message like $1', [
      `round-${round}-%`,
    ])
    return rows.map(({ message }) => message)
  }
  const [doomed, other] = await Promise.all([start({ ids, deliveries: 2 }), start({ ids, deliveries: 2 })])
  for (const child of [doomed, other]) child.send('go')
  const enough = 1 + Math.floor(Math.random() * 90)
  await waitUntil(`${enough} messages are done`, async () => (await done()).length >= enough)
  doomed.signal('SIGKILL')
  await other.message()
  const consumer = await survivor()
  await Promise.all(ids.map((id) => consumer.handle({ id, body: null })))
  return { ids: ids.sort(), done: (await done()).sort() }
}

const rounds = process.env.ONCEKEY_LONG === '1' ? 40 : 1

test(`two processes with the same messages, one of them killed on the way: one effect each (rounds: ${rounds})`, {
  timeout: 60_000 * rounds,
}, async () => {
  for (let round = 0; round < rounds; round += 1) {
    const { ids, done } = await killAmong(round)
    expect(done).toEqual(ids)
  }
})
