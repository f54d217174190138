import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { expect, onTestFinished, test } from 'vitest'
import { type JobMessage, natsSink } from '../../src/outbox/index.js'
import { relay } from '../../src/workers/index.js'
import { startChild } from '../support/child.js'
import { startNats } from '../support/nats.js'
import { useDatabase } from '../support/postgres/database.js'
import { nothing, setup } from './setup.js'

const database = useDatabase()
const leaseMs = 600_000

async function newStream() {
  const server = await startNats()
  onTestFinished(() => server.stop())
  const connection = await connect({ port: server.port })
  onTestFinished(() => connection.close())
  const manager = await jetstreamManager(connection)
  await manager.streams.add({ name: 'jobs', subjects: ['jobs'] })
  return {
    port: server.port,
    client: jetstream(connection),
    async messages(): Promise<JobMessage[]> {
      const { state } = await manager.streams.info('jobs')
      const numbers = Array.from({ length: state.last_seq }, (_, index) => index + 1)
      const stored = await Promise.all(numbers.map((seq) => manager.streams.getMessage('jobs', { seq })))
      return stored.map((message) => message?.json<JobMessage>() as JobMessage)
    },
  }
}

test('a relay to a queue is killed between delivery and settlement, another one goes on, and every job is in the queue once', async () => {
  const { port, client, messages } = await newStream()
  const { once, stage, advance } = await setup(database)
  const jobs = Array.from({ length: 60 }, (_, payload) => ({ payload, options: payload % 2 ? { group: `g${payload % 6}` } : {} }))
  await stage(...jobs)
  const idsLeft = async () => (await database.pool.query('select id from oncekey.jobs')).rows.map(({ id }) => id as string)

  const doomed = startChild('outbox/nats-relayer.ts', { url: database.url, port, subject: 'jobs', leaseMs, killAt: 25 })
  await expect(doomed.message()).rejects.toThrow('SIGKILL')
  const [arrived, left] = [(await messages()).map(({ id }) => id), await idsLeft()]
  const unsettled = arrived.filter((id) => left.includes(id)).length
  expect(arrived.length).toBeGreaterThanOrEqual(25)
  expect(arrived.length).toBeLessThan(60)
  expect(unsettled).toBeGreaterThan(0)
  // Nothing is lost in between: what is not in the table is in the queue.
  expect(new Set([...arrived, ...left]).size).toBe(60)

  await advance(leaseMs)
  const counts = await relay(once, { sink: natsSink(client, { subject: 'jobs' }) }).runOnce()
  expect(counts).toEqual({ ...nothing, delivered: left.length })
  expect(await idsLeft()).toEqual([])
  const all = await messages()
  expect(all.map(({ payload }) => payload as number).sort((a, b) => a - b)).toEqual(jobs.map(({ payload }) => payload))
  for (const group of ['g1', 'g3', 'g5']) {
    const order = all.filter((message) => message.group === group).map(({ payload }) => payload as number)
    expect(order).toEqual(order.toSorted((a, b) => a - b))
  }
})
