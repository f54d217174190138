// The command line that everybody has.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once as eventOf } from 'node:events'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { debianProgram, type Program } from '../support/debian-program.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type ChargesService, type ServiceOptions, type Stack, stacks, startCharges } from './charges-service.js'
import { type ClientAnswer, expectRefusal, expectSameKey, type KeyLine, refused, sameKey, twoLines } from './key-rows.js'

const database = useDatabase()
let program: Program
beforeAll(async () => {
  program = await debianProgram('curl', ['curl', 'libcurl4'])
})

interface Transfer {
  readonly status: number
  /** How many connections it had to open. */
  readonly connects: number
  readonly headers: Readonly<Record<string, readonly string[]>>
}

/** One line of JSON for each transfer on the standard error, so that the standard output is the body, byte for byte. */
const report = '%{stderr}{"status":%{http_code},"connects":%{num_connects},"headers":%{header_json}}\x1e'

function start(parameters: readonly string[], input = '') {
  const child = spawn(program.path, ['--silent', '--no-progress-meter', '--write-out', report, ...parameters], { env: program.env })
  onTestFinished(() => void child.kill('SIGKILL'))
  child.stdin.end(input)
  const ended = Promise.all([text(child.stdout), text(child.stderr), eventOf(child, 'close')]).then(([body, reports, [code]]) => {
    const transfers = reports.split('\x1e').filter((one) => one.trim() !== '')
    return { code: code as number, body, transfers: transfers.map((one) => JSON.parse(one) as Transfer) }
  })
  return { child, ended }
}

const json = ['--header', 'Content-Type: application/json']
const withKey = (key: string) => ['--header', `Idempotency-Key: "${key}"`]
const body = '{"amount":100}'
const standard = (key: string) => [...json, ...withKey(key), '--data', body]

async function charge({ url }: ChargesService, lines: readonly KeyLine[]): Promise<ClientAnswer> {
  // Its way to send a header without a value.
  const headers = lines.flatMap(([name, value]) => ['--header', value === '' ? `${name};` : `${name}: ${value}`])
  const { body: answer, transfers } = await start([url, ...json, ...headers, '--data', body]).ended
  const [transfer] = transfers as [Transfer]
  return { status: transfer.status, header: (name) => transfer.headers[name]?.[0], body: answer }
}

const kindOf = ({ status, headers }: Transfer) => [status, headers['idempotent-replayed'] ? 'replay' : 'first']
const first = [201, 'first']
const replay = [201, 'replay']

async function setupOn(stack: Stack, options: Omit<ServiceOptions, 'stack'> = {}) {
  const service = await startCharges(database.pool, { stack, ...options })
  const key = randomUUID()
  return {
    service,
    key,
    async run(...parameters: string[]) {
      const { transfers } = await start(parameters).ended
      return transfers.map(kindOf)
    },
  }
}

// The header is read by the same code behind all four, and a plain socket sends these lines to each: one is enough for a client that is a
// process each time.
const headerStacks: Stack[] = process.env.ONCEKEY_LONG === '1' ? ['node:http', 'express, express.json() behind'] : ['node:http']

describe.each(headerStacks)('the header, %s', (stack) => {
  test.each(sameKey)('one key: %s', async (_, lines) => {
    await expectSameKey((await setupOn(stack)).service, charge, lines)
  })

  test.each([...refused, ...twoLines])('refused: %s', async (_, lines) => {
    await expectRefusal((await setupOn(stack)).service, charge, lines)
  })
})

describe.each(stacks)('%s', (stack) => {
  const setup = (options?: Omit<ServiceOptions, 'stack'>) => setupOn(stack, options)

  test('two requests on one connection', async () => {
    const { service, key } = await setup()
    const { transfers } = await start([service.url, ...standard(key), '--next', service.url, ...standard(key), '--write-out', report]).ended
    expect(transfers.map(kindOf)).toEqual([first, replay])
    expect(transfers.map(({ connects }) => connects)).toEqual([1, 0])
    expect(service.runs()).toBe(1)
  })

  test('however the body is sent, it is the same request', async () => {
    const { service, key, run } = await setup()
    expect(await run(service.url, ...standard(key))).toEqual([first])
    expect(await run(service.url, ...standard(key), '--header', 'Expect: 100-continue')).toEqual([replay])
    expect(await run(service.url, ...standard(key), '--http1.0')).toEqual([replay])
    const inPieces = start([service.url, ...json, ...withKey(key), '--header', 'Transfer-Encoding: chunked', '--data-binary', '@-'], body)
    expect((await inPieces.ended).transfers.map(kindOf)).toEqual([replay])
    expect(service.runs()).toBe(1)
  })

  test('a large body in pieces, announced with Expect', async () => {
    const { service, key } = await setup({ answer: (response) => response.end('{}') })
    const large = JSON.stringify({ note: 'x'.repeat(3_000_000) })
    const upload = ['--header', 'Transfer-Encoding: chunked', '--header', 'Expect: 100-continue', '--data-binary', '@-']
    // express.json() has a limit of its own, and what it says is an answer like any other.
    const status = stack === 'express, express.json() behind' ? 413 : 201
    for (const expected of [
      [status, 'first'],
      [status, 'replay'],
    ]) {
      const { transfers } = await start([service.url, ...json, ...withKey(key), ...upload], large).ended
      expect(transfers.map(kindOf)).toEqual([expected])
    }
    expect(service.runs()).toBe(1)
  })

  test('twenty at once: one runs', async () => {
    const { service, key } = await setup()
    const urls = Array.from({ length: 20 }, () => service.url)
    const { transfers } = await start(['--parallel', '--parallel-immediate', ...urls, ...standard(key), '--output', '/dev/null']).ended
    const kinds = transfers.map(kindOf).map(String)
    expect(kinds).toHaveLength(20)
    expect(kinds.filter((kind) => kind === String(first))).toHaveLength(1)
    expect(kinds.filter((kind) => ![String(first), String(replay), '409,first'].includes(kind))).toEqual([])
    expect(service.runs()).toBe(1)
  })

  test('killed while the work goes on: it is done, and a retry replays', async () => {
    const { service, key, run } = await setup()
    service.work.shut()
    const { child, ended } = start([service.url, ...standard(key)])
    await service.work.untilWaiting()
    child.kill('SIGKILL')
    await ended
    await waitUntil('the server has noticed', () => service.connections() === 0)
    service.work.open()
    await waitUntil('the work is done', () => service.seen('finished') === 1)
    expect(await run(service.url, ...standard(key))).toEqual([replay])
    expect(service.runs()).toBe(1)
  })
})

test('with --retry it waits as long as Retry-After says, and gets the answer', async () => {
  const { service, key } = await setupOn('node:http', { http: { lease: '3s' } })
  service.work.shut()
  const holder = start([service.url, ...standard(key)])
  await service.work.untilWaiting()
  const retrier = start([service.url, ...standard(key), '--fail', '--retry', '3', '--retry-all-errors'])
  await waitUntil('it was told to come back', () => service.seen('met-in-progress') > 0)
  service.work.open()
  expect((await holder.ended).transfers.map(kindOf)).toEqual([first])
  const { code, transfers } = await retrier.ended
  expect([code, transfers.map(kindOf).at(-1)]).toEqual([0, replay])
  expect(service.runs()).toBe(1)
})

test('with --retry it comes back after a 503 of the handler, which runs again', async () => {
  let times = 0
  const { service, key } = await setupOn('node:http', {
    answer: (response) => {
      times += 1
      if (times === 1) response.writeHead(503, { 'retry-after': '1' }).end()
    },
  })
  const { code, transfers } = await start([service.url, ...standard(key), '--fail', '--retry', '3']).ended
  expect([code, transfers.map(kindOf).at(-1), service.runs()]).toEqual([0, first, 2])
})
