// The example as a new user meets it: `npm start`, the page in a real browser, processes that really die.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { ownFolder } from '../../examples/orders/own-folder.js'
import { launchChromium } from '../support/chromium.js'
import { waitUntil } from '../support/wait-until.js'
import { newFolder, type RunningExample, removeFolder, startExample, startSupervisor } from './running-example.js'

const crashes = process.env.ONCEKEY_LONG ? 20 : 1

let folder: string
let example: RunningExample
let browser: Browser
let page: Page

beforeAll(async () => {
  folder = await newFolder()
  // One after the other: what has started is stopped, also where the other one does not.
  example = await startExample(folder)
  browser = await launchChromium()
  page = await browser.newPage()
  await page.goto(example.url)
})

afterAll(async () => {
  await browser?.close()
  await example?.stop()
  await removeFolder(folder)
})

/** Presses a button and waits until everything that it began has ended. */
async function press(name: string) {
  await page.getByRole('button', { name, exact: true }).click()
  await page.waitForFunction(`document.body.dataset.underWay === '0'`, undefined, { timeout: 120_000 })
}

const mood = (label: string) => page.getByRole('radio', { name: label }).check()

interface Answer {
  readonly status: number
  readonly replayed: boolean
  readonly times: number
}

const answers = (column: 'with' | 'without') =>
  page.evaluate<Answer[]>(
    `[...document.querySelectorAll('#${column} .answers [data-status]')].map(({ dataset: { status, replayed, times } }) =>
      ({ status: Number(status), replayed: replayed === 'true', times: Number(times) }))`,
  )
const statuses = async (column: 'with' | 'without') => (await answers(column)).map(({ status }) => status)
const charged = async () =>
  Promise.all(['with', 'without'].map(async (column) => Number(await page.locator(`#${column} .verdict`).getAttribute('data-charged'))))
const pids = async () => Promise.all(['with', 'without'].map((column) => page.locator(`#${column} .process`).getAttribute('data-pid')))
const stepsDone = () => page.locator('#with .track [data-is=done]').allTextContents()

beforeEach(async () => {
  if (example.supervisor.exitCode !== null || example.supervisor.signalCode !== null) return
  await mood('answers')
  await press('New order')
})

test('over HTTP each order is made and charged once, and its receipt is sent', async () => {
  const order = { item: 'tea', cents: 1250, customer: 'http@example.com' }
  const post = (key: string, body: object) =>
    fetch(`${example.url}/orders`, {
      method: 'POST',
      headers: { 'idempotency-key': key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const first = await post('order-1', order)
  expect(first.status).toBe(201)
  const answer = await first.text()

  const again = await post('order-1', order)
  const location = first.headers.get('location')
  expect([again.status, again.headers.get('idempotent-replayed'), again.headers.get('location')]).toEqual([201, 'true', location])
  expect(await again.text()).toBe(answer)
  expect((await fetch(example.url + location)).status).toBe(200)

  expect((await post('order-1', { ...order, item: 'coffee' })).status).toBe(422)
  expect((await post('', order)).status).toBe(400)
  expect((await post('order-2', { ...order, cents: -1 })).status).toBe(400)

  const read = async (path: string) => (await fetch(example.url + path)).json() as Promise<Record<string, never>>
  const { orders } = await waitUntil('the receipt is sent', async () => {
    const found = (await read('/orders?customer=http@example.com')) as unknown as { orders: { receipt_sent: boolean }[] }
    return found.orders.every(({ receipt_sent }) => receipt_sent) ? found : undefined
  })
  expect(orders).toHaveLength(1)
  expect(await read('/provider/charges?customer=http@example.com')).toMatchObject({ with: { charged: 1, cents: 1250 } })
  const { trail } = (await read('/keys/order-1')) as unknown as { trail: { what: string }[] }
  expect(trail.map(({ what }) => what)).toEqual(['claimed', 'advanced', 'complete'])
})

test('odd requests are refused, and end nobody', async () => {
  const { port } = new URL(example.url)
  // As it is: fetch would not send such addresses.
  const statusOf = async (path: string) => {
    const [response] = (await once(get({ host: 'localhost', port, path }), 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode
  }
  const before = await pids()
  for (const path of ['/burst', '//', '/naive//', '/provider//']) expect([path, await statusOf(path)]).toEqual([path, 400])
  expect(await statusOf('/')).toBe(200)
  await press('Send')
  expect([await charged(), await pids()]).toEqual([[1, 1], before])
})

test('sent twice it is charged once, and the second answer is the first one again', async () => {
  await press('Send twice')
  expect(await answers('with')).toMatchObject([
    { status: 201, replayed: false },
    { status: 201, replayed: true },
  ])
  expect(await charged()).toEqual([1, 2])
  expect(await stepsDone()).toEqual(['claimed', 'order_created', 'charge_created', 'complete'])
})

test('sent fifty times at once it is charged once, and everybody is told what to do', async () => {
  await press('Send 50 at once')
  const heard = await answers('with')
  const count = (wanted: (answer: Answer) => boolean) => heard.filter(wanted).reduce((sum, { times }) => sum + times, 0)
  expect(count(({ status, replayed }) => status === 201 && !replayed)).toBe(1)
  expect(count(({ status, replayed }) => status === 409 || (status === 201 && replayed))).toBe(49)
  expect(await charged()).toEqual([1, 50])
})

test('the same key with another body is refused', async () => {
  await press('Send with another body')
  expect(await statuses('with')).toEqual([201, 422])
  expect(await charged()).toEqual([1, 2])
})

test('a key that cannot be sent is said at its field, and an earlier key’s answer is not shown under a new one', async () => {
  const shownKey = page.getByLabel('Idempotency-Key')
  for (const key of ['', ' ', 'schlüssel']) {
    await shownKey.fill(key)
    await press('Send')
    expect([key, await statuses('with')]).toEqual([key, []])
    expect(await page.evaluate(`document.querySelector('#key').validity.valid`)).toBe(false)
  }
  await press('New order')
  await mood('is slow')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await expect.poll(() => page.locator('#story').textContent()).toBe('One request to each shop.')
  await press('New order')
  expect([await statuses('with'), await statuses('without'), await charged()]).toEqual([[], [], [0, 0]])
})

test('a declined card is declined for every retry, also when the provider has changed its mind', async () => {
  await mood('declines')
  await press('Send')
  await mood('answers')
  await press('Send')
  expect(await answers('with')).toMatchObject([
    { status: 402, replayed: false },
    { status: 402, replayed: true },
  ])
  expect(await charged()).toEqual([0, 1])
})

test('a charge whose answer is lost is not made again', async () => {
  await mood('charges, and its answer is lost')
  await press('Send')
  expect(await statuses('with')).toEqual([500, 201])
  expect(await charged()).toEqual([1, 2])
})

test('note, refund and export do what they say, and a second refund is refused', async () => {
  await page.getByRole('button', { name: 'Refund the order' }).click()
  await expect.poll(() => page.locator('#refund-answer').textContent()).toBe('send an order first')
  await press('Send')
  await press('Save')
  await press('Refund the order')
  expect(await page.locator('#refund-answer').textContent()).toContain('200: given back')
  await press('Refund the order')
  expect(await page.locator('#refund-answer').textContent()).toBe('409: refused: it was refunded before')
  expect(await page.locator('#with .books').textContent()).toBe('€12.50 by the provider’s books, and given back')
  expect(await page.locator('#with .orders').textContent()).toContain('“Leave it at the door”')

  await press('Export all orders')
  const file = await page.locator('#export-answer a').getAttribute('href')
  const lines = (await (await fetch(example.url + file)).text()).trim().split('\n')
  expect(lines.length).toBeGreaterThan(2)
  expect(lines.filter((line) => /"re_\d+"$/.test(line))).toHaveLength(1)
})

test('a provider that is killed knows afterwards what it has charged', async () => {
  await press('Send')
  const { processes } = (await (await fetch(`${example.url}/watch`)).json()) as { processes: { provider: { pid: number } } }
  process.kill(processes.provider.pid, 'SIGKILL')
  await press('Refund the order')
  expect(await page.locator('#refund-answer').textContent()).toContain('200: given back')
  await waitUntil('it is up again', async () => (await fetch(`${example.url}/provider/charges`)).ok)
  await press('New order')
  await press('Send')
  expect(await charged()).toEqual([1, 1])
})

test(`killed in the middle of the charge, it goes on and has charged once (in a row: ${crashes})`, {
  timeout: crashes * 80_000,
}, async () => {
  for (let crash = 1; crash <= crashes; crash += 1) {
    const before = await pids()
    await press('Crash both servers mid-charge')
    const after = await pids()
    expect([after[0] !== before[0], after[1] !== before[1]]).toEqual([true, true])
    expect(await stepsDone()).toEqual(['claimed', 'order_created', 'charge_created', 'complete'])
    expect((await statuses('with')).at(-1)).toBe(201)
    expect([crash, ...(await charged())]).toEqual([crash, 1, 2])
  }
})

test('the page fits on a phone, and nothing on it comes from elsewhere', async () => {
  await page.setViewportSize({ width: 390, height: 844 })
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390)
  await page.setViewportSize({ width: 1280, height: 900 })
  const origins = await page.evaluate<string[]>(`performance.getEntriesByType('resource').map(({ name }) => new URL(name).origin)`)
  expect(new Set(origins)).toEqual(new Set([example.url]))
})

test('a port that is taken is said, with a way out', async () => {
  const second = startSupervisor(folder, Number(new URL(example.url).port))
  const [said, [code]] = await Promise.all([text(second.stderr), once(second, 'exit')])
  expect([code, said]).toEqual([1, expect.stringContaining('npm start')])
})

test('a folder that is in use is nobody else’s', async () => {
  await expect(ownFolder(join(folder, 'service'), 0)).rejects.toThrow('is in use by another process')
})

test('a supervisor that is killed leaves no process behind, and the next start has the orders', async () => {
  await press('Send')
  const key = await page.locator('#key').inputValue()
  const { stdout } = await promisify(execFile)('ps', ['-o', 'pid=', '--ppid', String(example.supervisor.pid)])
  const children = stdout.trim().split(/\s+/)
  expect(children.length).toBeGreaterThanOrEqual(3)
  example.supervisor.kill('SIGKILL')
  await waitUntil('all its processes are gone', async () => {
    const states = await Promise.all(children.map((pid) => promisify(execFile)('ps', ['-o', 'stat=', '-p', pid]).catch(() => undefined)))
    // A zombie is gone, and waits for somebody to notice.
    return states.every((found) => found === undefined || found.stdout.startsWith('Z'))
  })
  example = await startExample(folder)
  const found = (await (await fetch(`${example.url}/keys/${key}`)).json()) as { state: string }
  expect(found.state).toBe('complete')
  await example.stop()
  expect(example.supervisor.exitCode).toBe(0)
})
