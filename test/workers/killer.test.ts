// An operation that ends its process, and others that are carried out beside it.
import { expect, onTestFinished, test } from 'vitest'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { setup } from './setup.js'

const database = useDatabase()

test('parks the operation that ends its process, and completes its neighbours', { timeout: 120_000 }, async () => {
  const { once, tenant, store } = await setup(database)
  const operation = once.operation('killing', {}, () => {
    throw new Error('only workers carry it out')
  })
  const innocent = Array.from({ length: 5 }, (_, number) => `innocent-${number}`)
  await operation.enqueue({ tenant, key: 'killer', input: 'kills' })
  for (const key of innocent) await operation.enqueue({ tenant, key, input: 'lives' })

  // A supervisor that starts the process again whenever it ends.
  let isOver = false
  let deaths = 0
  const supervise = async () => {
    while (!isOver) {
      await startChild('workers/killer-process.ts', { url: database.url })
        .message()
        .catch(() => {})
      deaths += 1
    }
  }
  onTestFinished(() => {
    isOver = true
  })
  void supervise()
  const stateOf = async (key: string) => (await store.keyRead({ tenant, scope: 'killing', key }))?.state
  await waitUntil('the killer is parked', async () => (await stateOf('killer')) === 'parked', 90_000)
  for (const key of innocent)
    await waitUntil('its neighbour has ended', async () => ['complete', 'parked'].includes((await stateOf(key)) as string))
  expect(await Promise.all(innocent.map(stateOf))).toEqual(innocent.map(() => 'complete'))
  expect(deaths).toBe(4)
})
