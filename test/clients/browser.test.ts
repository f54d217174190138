// The client in a real browser: reloads, tabs, pages without HTTPS.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { launchChromium } from '../support/chromium.js'
import { useDatabase } from '../support/postgres/database.js'
import { type ServiceOptions, startCharges } from './charges-service.js'
import { startFront } from './shop-front.js'

const database = useDatabase()
let browser: Browser

beforeAll(async () => {
  browser = await launchChromium('--host-resolver-rules=MAP shop.test 127.0.0.1')
})
afterAll(() => browser?.close())

async function setup(http: ServiceOptions['http'] = {}) {
  // Who comes back in the middle waits for the answer, and not for the lease.
  const service = await startCharges(database.pool, { http: { whenInProgress: 'wait', ...http } })
  const { port } = await startFront(service.port)
  const context = await browser.newContext()
  onTestFinished(() => context.close())

  async function open(address = `http://localhost:${port}/`): Promise<Page> {
    const page = await context.newPage()
    await page.goto(address)
    return page
  }
  return { service, port, open, pay: `shop.pay('http://127.0.0.1:${port}/charges')` }
}

interface Told {
  readonly status: number
  readonly key: string
  readonly replayed: boolean
  readonly attempts: number
  readonly answer: string
}

/** The page goes away before it gets this. */
const leave = (page: Page, expression: string) => void page.evaluate(expression).catch(() => {})

test.each([
  ['', 'String'],
  ['?indexedDB', 'Uint8Array'],
])('a page that is reloaded in the middle goes on with the same key: /%s', async (search, body) => {
  const { service, port, open, pay } = await setup()
  const page = await open(`http://localhost:${port}/${search}`)
  service.work.shut()
  leave(page, pay)
  await service.work.untilWaiting()
  await page.reload()
  const keys = await page.evaluate<string[]>('shop.keys()')
  expect(await page.evaluate('shop.bodies()')).toEqual([body])
  const resuming = page.evaluate<Told[]>('shop.resume()')
  service.work.open()
  const resumed = await resuming
  expect(resumed).toMatchObject([{ status: 201, key: keys[0], replayed: true }])
  expect(resumed[0]?.answer).toContain('"run":1')
  expect([service.runs(), await page.evaluate('shop.keys()')]).toEqual([1, []])
})

test('a tab leaves alone what another one is at, and takes over when it is closed', async () => {
  const { service, open, pay } = await setup()
  const [one, other] = [await open(), await open()]
  service.work.shut()
  leave(one, pay)
  await service.work.untilWaiting()
  expect(await other.evaluate<string[]>('shop.keys()')).toHaveLength(1)
  expect(await other.evaluate('shop.resume()')).toEqual([])
  await one.close()
  const resuming = other.evaluate<Told[]>('shop.resume()')
  service.work.open()
  expect(await resuming).toMatchObject([{ status: 201, replayed: true }])
  expect(service.runs()).toBe(1)
})

test.each(['shop.pay', 'shop.resume'])('a page that is busy when the browser gives it the lock sends all the same: %s', async (call) => {
  const { port, service, open } = await setup()
  const page = await open()
  const url = `http://127.0.0.1:${port}/charges`
  if (call === 'shop.resume') {
    // Left by a page that is gone.
    const other = await open()
    service.work.shut()
    leave(other, `shop.pay('${url}')`)
    await service.work.untilWaiting()
    await other.close()
    service.work.open()
  }
  await page.evaluate(() => {
    const { locks } = (globalThis as unknown as { navigator: { locks: { request: (...parameters: unknown[]) => unknown } } }).navigator
    const request = locks.request.bind(locks)
    locks.request = (...parameters) => {
      const asked = request(...parameters)
      // A long task of the page, from now on until all its timers are due.
      for (const end = Date.now() + 1_500; Date.now() < end; );
      return asked
    }
  })
  expect([await page.evaluate(`${call}('${url}')`)].flat()).toMatchObject([{ status: 201 }])
  expect([service.runs(), await page.evaluate('shop.keys()')]).toEqual([1, []])
})

test('a page without HTTPS, which has no randomUUID and no locks, pays once, too', async () => {
  const { service, port, open, pay } = await setup()
  const page = await open(`http://shop.test:${port}/`)
  expect(await page.evaluate('[isSecureContext, typeof crypto.randomUUID, typeof navigator.locks]')).toEqual([
    false,
    'undefined',
    'undefined',
  ])
  service.work.shut()
  leave(page, pay)
  await service.work.untilWaiting()
  await page.reload()
  const resuming = page.evaluate<Told[]>('shop.resume()')
  service.work.open()
  expect(await resuming).toMatchObject([{ status: 201, replayed: true, key: expect.stringMatching(/^[\da-f-]{36}$/) }])
  expect(service.runs()).toBe(1)
})

test('a redirect, which a browser hides, is an error, and the key goes nowhere else', async () => {
  const { service, port, open } = await setup()
  const page = await open()
  for (const host of ['localhost', '127.0.0.1']) {
    expect(await page.evaluate(`shop.failure('http://${host}:${port}/moved')`)).toBe('redirected')
  }
  expect([await page.evaluate('shop.resume()'), service.runs()]).toEqual([['unanswered', 'unanswered'], 0])
})

test.each(['', '?indexedDB'])(
  'a request is sent with its own user’s cookie, and left alone while another one is logged in: /%s',
  async (search) => {
    const users: string[] = []
    const tenant = ({ headers }: { headers: { cookie?: string | undefined } }) => {
      const user = /user=(\w+)/.exec(headers.cookie ?? '')?.[1] ?? 'guest'
      users.push(user)
      return user
    }
    const { service, port, open } = await setup({ tenant })
    const address = `http://localhost:${port}/${search}`
    const page = await open(address)
    const logIn = (user: string) => page.evaluate(`document.cookie = 'user=${user}'`)
    await logIn('alice')
    service.work.shut()
    leave(page, `shop.pay('http://localhost:${port}/charges')`)
    await service.work.untilWaiting()
    // Bob logs in at the same browser.
    await page.goto('about:blank')
    service.work.open()
    await page.goto(address)
    await logIn('bob')
    expect([await page.evaluate('shop.resume()'), await page.evaluate('shop.keys()')]).toEqual([['other-owner'], []])
    await logIn('alice')
    expect(await page.evaluate('shop.keys()')).toHaveLength(1)
    expect(await page.evaluate('shop.resume()')).toMatchObject([{ status: 201 }])
    expect([service.runs(), new Set(users)]).toEqual([1, new Set(['alice'])])
  },
)
