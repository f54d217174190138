// The picture of an order's crash windows says what a crash there leaves, and what the next attempt does.
import { expect, test } from 'vitest'
import { armCrashPoints, SimulatedCrash } from '../../src/core/crash-points.js'
import { reply } from '../../src/index.js'
import { setup as setupPhases } from '../phases/setup.js'
import { useDatabase } from '../support/postgres/database.js'
import { read } from './pages.js'

const database = useDatabase()

const attribute = (name: string, text: string) => new RegExp(`data-${name}="([^"]*)"`).exec(text)?.[1] ?? ''
const listed = (text: string) => text.split(', ').filter((item) => item !== '')
const windows = [...read('docs/images/crash-windows.svg').matchAll(/<g data-window="\d".*?>/g)].map(([text]) => ({
  points: listed(attribute('points', text)),
  charges: Number(attribute('charges', text)),
  state: attribute('state', text),
  steps: listed(attribute('steps', text)),
}))

/** The order of the picture, at a provider that honours keys. */
async function setup() {
  const world = await setupPhases(database)
  const charges = new Set<string>()
  const createOrder = world.once.operation('orders.create', {}, async (run) => {
    await run.phase('order_created', async (tx) => {
      await world.insert(tx, run.id)
    })
    await run.call('charge_created', ({ key }) => void charges.add(key))
    return run.finish(async (tx) => {
      await run.stage(tx, 'send_receipt', {})
      return reply(201)
    })
  })
  async function left() {
    const { rows } = await world.pool.query(
      `select (select count(*)::int from things where id = key.id::text) as orders,
              (select count(*)::int from oncekey.jobs as job where job.key_id = key.id) as receipts
       from oncekey.keys as key where tenant = $1`,
      [world.tenant],
    )
    return { ...rows[0], charges: charges.size }
  }
  return { ...world, charges, left, attempt: () => createOrder.run({ tenant: world.tenant, key: 'k', input: {} }) }
}

test('the windows are made of all crash points of an order, in their order', async () => {
  const { attempt } = await setup()
  const points: string[] = []
  const disarm = armCrashPoints((point) => void points.push(point))
  await attempt().finally(disarm)
  expect(windows.flatMap((window) => window.points)).toEqual(points)
})

test.each(windows.flatMap((window, index) => window.points.map((point) => ({ number: index + 1, point, ...window }))))(
  'a crash in window $number, at $point, leaves what is drawn, and one charge in the end',
  async ({ point, charges, state, steps, number }) => {
    const world = await setup()
    const disarm = armCrashPoints((passed) => {
      if (passed === point) throw new SimulatedCrash(passed)
    })
    await world
      .attempt()
      .catch(() => {})
      .finally(disarm)

    expect((await world.key('k'))?.state ?? 'absent').toBe(state)
    expect((await world.steps()).map(({ name }) => name)).toEqual(steps)
    expect(world.charges.size).toBe(charges)
    if (state === 'processing') expect((await world.attempt()).kind).toBe('in-progress')

    await world.advance(60_000)
    expect((await world.attempt()).kind).toBe(number === windows.length ? 'replayed' : 'executed')
    expect(await world.left()).toEqual({ orders: 1, receipts: 1, charges: 1 })
  },
)
