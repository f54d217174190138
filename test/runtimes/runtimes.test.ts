// Real Bun, Deno and workerd, over real sockets. They weigh 350 MB, so they are installed where this runs: npm run test:long.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { describe, expect, onTestFinished, test } from 'vitest'
import { npmProgram } from '../support/npm-program.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()
const fileHere = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const { platform, arch } = process

/** The packages of this platform, at the newest releases that were tried. */
const packages = {
  bun: { name: `@oven/bun-${platform}-${arch === 'arm64' ? 'aarch64' : arch}`, version: '1.4.4', file: 'bin/bun' },
  deno: { name: `@deno/${platform}-${arch}${platform === 'linux' ? '-glibc' : ''}`, version: '2.9.6', file: 'deno' },
  workerd: { name: `@cloudflare/workerd-${platform}-${arch === 'x64' ? '64' : arch}`, version: '1.20261117.1', file: 'bin/workerd' },
}

function programOf(runtime: keyof typeof packages): Promise<string> {
  const { name, version, file } = packages[runtime]
  return npmProgram(name, version, file)
}

type Start = () => Promise<ChildProcess>

const inBun =
  (store: string): Start =>
  async () =>
    spawn(await programOf('bun'), [fileHere('served.ts'), store, database.url])

const inDeno =
  (store: string): Start =>
  async () => {
    // The files are TypeScript that names its modules as Node's resolution asks for, with .js.
    const flags = ['run', '--allow-all', '--no-check', '--no-lock', '--unstable-sloppy-imports']
    return spawn(await programOf('deno'), [...flags, fileHere('served.ts'), store, database.url])
  }

const config = `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .worker)],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")]
);
const worker :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = "2026-06-01",
  compatibilityFlags = ["nodejs_compat"]
);
`

const inWorkerd: Start = async () => {
  const folder = await mkdtemp(join(tmpdir(), 'oncekey-workerd-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const outfile = join(folder, 'worker.js')
  await build({ entryPoints: [fileHere('worker.ts')], outfile, bundle: true, format: 'esm', conditions: ['workerd'], external: ['node:*'] })
  await writeFile(join(folder, 'config.capnp'), config)
  return spawn(await programOf('workerd'), ['serve', '--control-fd=1', join(folder, 'config.capnp')])
}

const runtimes: [name: string, start: Start][] = [
  ['Bun', inBun('memory')],
  ['Bun, on Postgres through pg', inBun('pg')],
  ['Bun, on Postgres through postgres.js', inBun('postgres')],
  ['Deno', inDeno('memory')],
  ['Deno, on Postgres through pg', inDeno('pg')],
  ['Deno, on Postgres through postgres.js', inDeno('postgres')],
  ['workerd', inWorkerd],
]

/** Starts the service and waits for the line that says its port. */
async function setup(start: Start) {
  const child = await start()
  onTestFinished(() => void child.kill('SIGKILL'))
  let complaint = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint += text
  })
  let port: number | undefined
  const lines = createInterface(child.stdout as NodeJS.ReadableStream)
  lines.on('line', (line) => {
    port ??= (JSON.parse(line) as { port: number }).port
  })
  await waitUntil('the service listens', () => {
    if (child.exitCode !== null) throw new Error(`the service ended: ${complaint}`)
    return port
  })
  const url = `http://127.0.0.1:${port}`
  const tenant = crypto.randomUUID()
  const post = async (path: string, body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) => {
    const sent = { 'content-type': 'application/json', 'x-tenant': tenant, 'idempotency-key': `"${path}"`, ...headers }
    const response = await fetch(url + path, { method: 'POST', headers: sent, body })
    const { status } = response
    return {
      status,
      text: await response.text(),
      replayed: response.headers.get('idempotent-replayed') === 'true',
      headers: response.headers,
    }
  }
  const seen = async () => (await (await fetch(`${url}/seen`)).json()) as { readonly runs: number; readonly heartbeats: number }
  return { post, seen, runs: async () => (await seen()).runs }
}

const tea = '{"item":"tea"}'

describe.runIf(process.env.ONCEKEY_LONG === '1').each(runtimes)('%s', (_, start) => {
  test.each(['/fetch', '/hono'])('does the work of a key once, behind oncekey%s', { timeout: 600_000 }, async (path) => {
    const { post, runs } = await setup(start)
    const first = await post(path, tea)
    const again = await post(path, '{ "item": "tea" }')
    expect([first.status, first.replayed, JSON.parse(first.text)]).toEqual([201, false, { run: 1, byteLength: 14 }])
    expect([again.status, again.replayed, again.text, again.headers.get('x-run')]).toEqual([201, true, first.text, '1'])
    expect([(await post(path, '{"item":"gin"}')).status, await runs()]).toEqual([422, 1])

    const holding = { 'idempotency-key': '"held"', 'x-hold': 'tea' }
    const held = post(path, tea, holding)
    await waitUntil('the handler runs', async () => (await runs()) === 2)
    const beside = await post(path, tea, holding)
    expect([beside.status, Number(beside.headers.get('retry-after')) > 0]).toEqual([409, true])
    await post('/release/tea', '')
    expect([(await held).status, (await post(path, tea, holding)).replayed, await runs()]).toEqual([201, true, 2])

    const large = new Uint8Array(1_000_000).fill(7)
    const binary = { 'idempotency-key': '"large"', 'content-type': 'application/octet-stream' }
    expect(JSON.parse((await post(path, large, binary)).text)).toEqual({ run: 3, byteLength: 1_000_000 })
    expect((await post(path, large, binary)).replayed).toBe(true)
    large[999_999] = 8
    expect([(await post(path, large, binary)).status, await runs()]).toEqual([422, 3])
  })

  // workerd ends the timers of a request with it.
  test('a lease is kept alive after a request that began before it has ended', { timeout: 600_000 }, async () => {
    const { post, seen, runs } = await setup(start)
    const [early, late] = ['early', 'late'].map((name) => ({ 'idempotency-key': `"${name}"`, 'x-hold': name }))
    const first = post('/fetch', tea, early)
    await waitUntil('the first one runs', async () => (await runs()) === 1)
    const second = post('/fetch', tea, late)
    await waitUntil('both run', async () => (await runs()) === 2)
    await post('/release/early', '')
    expect((await first).status).toBe(201)
    const { heartbeats } = await seen()
    // More than a lease's worth of them.
    await waitUntil('the lease was renewed', async () => (await seen()).heartbeats > heartbeats + 4)
    expect((await post('/fetch', tea, late)).status).toBe(409)
    await post('/release/late', '')
    expect([(await second).status, await runs()]).toEqual([201, 2])
  })
})
