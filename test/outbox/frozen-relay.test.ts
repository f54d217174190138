import { expect, test } from 'vitest'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { nothing, setup } from './setup.js'

const database = useDatabase()

test('a relay that was frozen past its lease cannot settle what another one has delivered', async () => {
  const { stage, newRelay, advance, got, rows } = await setup(database)
  await stage({ payload: 1, options: { group: 'g' } }, { payload: 2, options: { group: 'g' } })
  const frozen = startChild('outbox/relayer.ts', { url: database.url, leaseMs: 600_000, asks: true })
  expect([await frozen.message(), await frozen.message()]).toEqual(['started', 'delivering'])
  expect(await newRelay().runOnce()).toEqual(nothing)

  frozen.signal('SIGSTOP')
  await advance(600_000)
  let open = () => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  let isAtSecond = false
  const delivering = newRelay({
    work({ payload }) {
      if (payload === 1) return
      isAtSecond = true
      return gate
    },
  }).runOnce()
  await waitUntil('the second of the group is under way', () => isAtSecond)
  frozen.send('go on')
  frozen.signal('SIGCONT')
  expect(await frozen.message()).toBe('job-unsettled')
  expect(await rows()).toMatchObject([{ payload: '2', attempts: 1 }])
  open()
  expect(await delivering).toEqual({ ...nothing, delivered: 2 })
  expect(got.map(({ payload, attempt }) => [payload, attempt])).toEqual([
    [1, 2],
    [2, 1],
  ])
})
