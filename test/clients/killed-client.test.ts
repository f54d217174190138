// A client that is killed between sending and the answer, and started again.
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { idempotentFetch, type PendingRequest } from '../../src/client/index.js'
import { fileStorage } from '../../src/client/node.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type ServiceOptions, startCharges } from './charges-service.js'
import type { PayingSettings } from './paying-client.js'

const database = useDatabase()

async function setup(options: ServiceOptions = {}) {
  const parent = await mkdtemp(join(tmpdir(), 'oncekey-client-'))
  onTestFinished(() => rm(parent, { recursive: true, force: true }))
  const service = await startCharges(database.pool, options)
  const folder = join(parent, 'pending')
  const client = (settings: Partial<PayingSettings>) =>
    startChild('clients/paying-client.ts', { url: service.url, folder, ...settings } satisfies PayingSettings)
  const files = () => readdir(folder)
  return { service, folder, client, files }
}

const requestOf = (id: string): PendingRequest => ({
  id,
  key: 'k',
  owner: 'single',
  createdAt: 0,
  url: 'u',
  method: 'POST',
  headers: [],
  settings: {},
})
const pendingIn = (folder: string) => idempotentFetch({ storage: fileStorage(folder), owner: 'single' }).pending()

test('killed while the work goes on: the next process gets the answer, of one charge', async () => {
  const { service, folder, client, files } = await setup()
  service.work.shut()
  const killed = client({ amount: 100 })
  await service.work.untilWaiting()
  killed.signal('SIGKILL')
  const [kept] = await pendingIn(folder)
  await waitUntil('the server has noticed', () => service.connections() === 0)
  service.work.open()
  await waitUntil('the work is done', () => service.seen('finished') === 1)

  const answered = { kind: 'answered', key: kept?.key, replayed: true, answer: { run: 1, body: '{"amount":100}' } }
  expect(await client({}).message()).toEqual([answered])
  expect([service.runs(), await files()]).toEqual([1, []])
})

test('killed before the server began: the next process has it done, once', async () => {
  const { service, folder, client, files } = await setup({ http: { whenInProgress: 'wait' } })
  service.beforeClaim.shut()
  const killed = client({ amount: 100 })
  await service.beforeClaim.untilWaiting()
  killed.signal('SIGKILL')
  const [kept] = await pendingIn(folder)
  // The request of the killed process and that of the next meet at the claim.
  const next = client({})
  await service.beforeClaim.untilWaiting(2)
  service.beforeClaim.open()
  expect(await next.message()).toMatchObject([{ kind: 'answered', key: kept?.key, answer: { run: 1 } }])
  expect([service.runs(), await files()]).toEqual([1, []])
})

test('files hold the request, not its secrets, and are the owner’s only', async () => {
  const { service, folder, client, files } = await setup()
  service.work.shut()
  client({ amount: 100 })
  await service.work.untilWaiting()
  const [name = ''] = await files()
  const text = await readFile(join(folder, name), 'utf8')
  expect(text).toContain('{\\"amount\\":100}')
  expect(text).not.toContain('Bearer')
  expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600)
  expect((await stat(folder)).mode & 0o777).toBe(0o700)
})

test('a file that was written half-way is no request', async () => {
  const { folder } = await setup()
  const storage = fileStorage(folder)
  expect(await storage.list()).toEqual([])
  await mkdir(folder)
  await writeFile(join(folder, 'half.json.draft'), '{"id":"ha')
  const request = requestOf('a/../b')
  await storage.put(request)
  expect(await pendingIn(folder)).toEqual([request])
  await storage.delete(request.id)
  await storage.delete(request.id)
  expect(await storage.list()).toEqual([])
})

test('a file that cannot be read hides no request, is reported and can be forgotten', async () => {
  const { folder } = await setup()
  const reported: unknown[] = []
  const send = idempotentFetch({ storage: fileStorage(folder), owner: 'single', onUnreadable: (entry) => reported.push(entry) })
  const request = requestOf('a b')
  await fileStorage(folder).put(request)
  await writeFile(join(folder, 'half%20written.json'), '{"id":"ha')
  await writeFile(join(folder, 'package.json'), '{"name":"other"}')
  await writeFile(join(folder, '100%.json'), '')
  await mkdir(join(folder, 'folder.json'))
  expect(await send.resume()).toEqual([{ kind: 'too-old', request }])
  const error = expect.any(Error)
  expect(reported).toHaveLength(4)
  expect(reported).toEqual(expect.arrayContaining(['half written', 'package', '100%', 'folder'].map((id) => ({ id, error }))))
  await send.forget('half written')
  expect((await readdir(folder)).sort()).toEqual(['100%.json', 'a%20b.json', 'folder.json', 'package.json'])
})
