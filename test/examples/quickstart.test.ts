import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Starts the example as `npm start` does, on a port and in a folder of its own. */
async function start() {
  const folder = await mkdtemp(join(tmpdir(), 'oncekey-quickstart-'))
  const child = spawn(process.execPath, ['--import', 'tsx', 'examples/quickstart/server.ts'], {
    cwd: root,
    env: { ...process.env, PORT: '0', DATA_DIR: folder, DATABASE_URL: '' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  })
  for await (const line of createInterface(child.stdout)) {
    const url = /http:\/\/localhost:\d+/.exec(line)?.[0]
    if (url) return `${url}/orders`
  }
  throw new Error('the example ended before it was ready')
}

test('the quick start makes and charges each order once', async () => {
  const url = await start()
  const post = (key: string, body: object) =>
    fetch(url, { method: 'POST', headers: { 'idempotency-key': key, 'content-type': 'application/json' }, body: JSON.stringify(body) })

  const first = await post('order-1', { item: 'tea' })
  expect(first.status).toBe(201)
  const answer = await first.text()

  const again = await post('order-1', { item: 'tea' })
  expect([again.status, again.headers.get('idempotent-replayed'), again.headers.get('location')]).toEqual([
    201,
    'true',
    first.headers.get('location'),
  ])
  expect(await again.text()).toBe(answer)

  expect((await post('order-1', { item: 'coffee' })).status).toBe(422)
  expect((await post('', { item: 'tea' })).status).toBe(400)

  const fifty = await Promise.all(Array.from({ length: 50 }, () => post('order-2', { item: 'slow' })))
  expect(fifty.filter(({ status }) => status === 201 || status === 409)).toHaveLength(50)
  expect((await post('order-3', { item: 'declined' })).status).toBe(402)
  expect((await post('order-3', { item: 'declined' })).headers.get('idempotent-replayed')).toBe('true')

  const { charges, orders } = (await (await fetch(url)).json()) as { charges: number; orders: { item: string; charge_id: string | null }[] }
  expect(
    orders
      .filter(({ charge_id }) => charge_id)
      .map(({ item }) => item)
      .sort(),
  ).toEqual(['slow', 'tea'])
  expect(charges).toBe(3)

  const story = (await (await fetch(url.replace('/orders', '/keys/order-1'))).json()) as { what: string }[]
  expect(story.map(({ what }) => what)).toEqual(['claimed', 'advanced', 'complete'])
})
