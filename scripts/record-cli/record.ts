// Re-makes the recordings of the command line in docs/ from a real run: a throw-away Postgres server, orders whose processes are really
// killed, and the program as it is published. Run it as `npm run docs:cli`, and read the diff.
//
// A recording is a console block below <!-- recorded: oncekey … -->.
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { createOnce } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { relay } from '../../src/workers/index.js'
import { startPostgres } from '../../test/support/postgres/server.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const pages = ['docs/reference/cli.md', 'docs/guide/operating.md', 'docs/guide/runbook.md']
const commands = ['migrate', 'status', 'list', 'show', 'release', 'retry', 'resolve', 'jobs', 'reap', 'sweep', 'reconcile', 'doctor']

/** The receipt of order-0. It gets this id, so that the pages can name it. */
const deadReceipt = '5a4cbe2b-7f0e-4d2c-9d5a-6f3f0c1f2b7e'

const recordings = new Map<string, string>()
const server = await startPostgres()
const provider = await startProvider()
try {
  await act()
} finally {
  provider.close()
  await server.stop()
}
for (const page of pages) writeFileSync(root + page, filled(page))

/** The scene, in its order. */
async function act(): Promise<void> {
  await onServer('create database orders')
  await onServer(
    'create table orders (id integer generated always as identity (start with 4127) primary key, item text, charge_id text)',
    '/orders',
  )
  await record('--help')
  for (const command of commands) await record('help', command)
  for (const command of ['list', 'show', 'retry', 'discard']) await record('jobs', command, '--help')
  await record('migrate', '--check')
  await record('migrate', '--yes')

  await order('order-0', 'resend')
  await order('order-1', 'resend', 'call charge_created:before')
  await order('order-1', 'resend', 'call charge_created:after')
  await order('order-1', 'resend')
  await record('show', 'order-1')
  expectCharges('order-1', 1)
  await receiptsFail()

  await order('order-2', 'park', 'call charge_created:after')
  await order('order-2', 'park')
  await order('order-3', 'resend', 'call charge_created:after')
  await order('order-3', 'resend', 'call charge_created:after')
  await leaseIsOver('order-3')
  await record('show', 'order-3')
  await record('list')
  await record('list', '--state', 'parked')
  await record('list', '--state', 'stuck')
  await record('status')
  await record('doctor')
  await record('release', 'order-3', '--yes')
  await order('order-4', 'resend', 'call charge_created:after')
  await leaseIsOver('order-4')
  await record('sweep', '--yes')
  await record('jobs')
  await record('jobs', 'show', deadReceipt)
  await record('jobs', 'retry', deadReceipt, '--yes')

  await record('show', 'order-2')
  await record('retry', 'order-2', '--yes')
  await record('resolve', 'order-2', '--happened', '--result', `'{"id":"ch_3"}'`, '--by', 'alice', '--yes')
  await order('order-2', 'park')
  await record('show', 'order-2', '--answer')
  expectCharges('order-2', 1)
  await record('retry', 'order-1', '--yes')
  await record('reap', '--yes')

  await order('order-5', 'resend', 'call charge_created:before')
  await order('order-5', 'renamed')
  await record('show', 'order-5')
  await record('retry', 'order-5', '--by', 'alice', '--yes')
  await order('order-5', 'resend')
  expectCharges('order-5', 1)

  for (const key of ['order-3', 'order-4', 'order-6', 'order-7']) await order(key, 'resend')
  await record('list', '--tenant', 'acme', '--scope', 'orders.create', '--limit', '2')
  provider.chargeByHand()
  const ours = '"select charge_id as id, id as order_id from orders where charge_id is not null"'
  await recordWith(provider.exported(), 'reconcile', '--sql', ours, '--foreign', '-', '--sort')

  const query = `"select 'order-' || n as id, 100 * n as amount from generate_series(1, 3) as n"`
  const charges = '{"id":"order-1","amount":100}\n{"id":"order-2","amount":250}\n{"id":"order-7","amount":700}\n'
  await recordWith(charges, 'reconcile', '--sql', query, '--foreign', '-', '--compare', 'amount')
}

async function record(...words: string[]): Promise<void> {
  await recordWith('', ...words)
}

async function recordWith(input: string, ...words: string[]): Promise<void> {
  const plain = words.map((word) => word.replace(/^(['"])(.*)\1$/, '$2'))
  const { output, exitCode } = await run(['dist/cli/main.js', ...plain], input)
  const line = ['oncekey', ...words].join(' ')
  recordings.set(line, `$ ${line}\n${output}${exitCode === 0 ? '' : `[exit code ${exitCode}]\n`}`)
}

async function order(...words: string[]): Promise<void> {
  const { output, exitCode, signal } = await run(['--import', 'tsx', 'scripts/record-cli/orders.ts', ...words])
  const doomed = words.length > 2
  if (doomed ? signal === 'SIGKILL' : exitCode === 0) return
  throw new Error(`the order ended otherwise than planned: ${words.join(' ')}\n${output}`)
}

function run(words: readonly string[], input = ''): Promise<{ output: string; exitCode: number | null; signal: string | null }> {
  const env = { ...process.env, DATABASE_URL: databaseUrl(), PROVIDER_URL: provider.url }
  const child = spawn(process.execPath, words, { cwd: root, env })
  child.stdin.end(input)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  return new Promise((resolve) => child.on('close', (exitCode, signal) => resolve({ output, exitCode, signal })))
}

/** The relay's first try at the receipts: one receiver is gone for good, the other one asks for an hour. */
async function receiptsFail(): Promise<void> {
  await onServer(`update oncekey.jobs set id = '${deadReceipt}' where payload = '{"order":4127}'`, '/orders')
  const pool = new pg.Pool({ connectionString: databaseUrl() })
  const once = createOnce({ store: postgresStore(fromPg(pool)) })
  const { failed, dead } = await relay(once, {
    sink: ({ id }) =>
      id === deadReceipt
        ? { error: new Error('410: the receiver wants no more'), final: true }
        : { error: new Error('503: the receiver is down'), retryAfterMs: 3_600_000 },
  }).runOnce()
  await pool.end()
  if (failed !== 1 || dead !== 1) throw new Error(`the receipts ended otherwise than planned: ${failed} failed, ${dead} dead`)
}

/** A payment provider that knows a key again, and counts. */
async function startProvider() {
  const charges: { id: string; key: string; order: string }[] = []
  const http = createServer(async (request, response) => {
    const order = Buffer.concat(await request.toArray()).toString()
    const key = String(request.headers['idempotency-key'])
    const known = charges.find((charge) => charge.key === key)
    const charge = known ?? { id: `ch_${charges.length + 1}`, key, order }
    if (!known) charges.push(charge)
    response.end(JSON.stringify({ id: charge.id }))
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    count: (order: string) => charges.filter((charge) => charge.order === order).length,
    /** Somebody helps a customer on the provider's own pages. */
    chargeByHand: () => void charges.push({ id: `ch_${charges.length + 1}`, key: '', order: 'by hand' }),
    /** Its export: a JSON object on each line. */
    exported: () => charges.map(({ id, order }) => `${JSON.stringify({ id, description: order })}\n`).join(''),
    close: () => http.close(),
  }
}

function databaseUrl(): string {
  const url = new URL(server.url)
  url.pathname = '/orders'
  return url.href
}

/** What the pages say of the recordings. */
function expectCharges(order: string, count: number): void {
  if (provider.count(order) !== count) throw new Error(`${order} was charged ${provider.count(order)} times`)
}

async function leaseIsOver(key: string): Promise<void> {
  await onServer(
    `do $$ begin while exists (select from oncekey.keys where key = '${key}' and locked_until > clock_timestamp()) loop perform pg_sleep(0.1); end loop; end $$`,
    '/orders',
  )
}

async function onServer(statement: string, database = '/postgres'): Promise<void> {
  const url = new URL(server.url)
  url.pathname = database
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  await client.query(statement)
  await client.end()
}

function filled(page: string): string {
  return readFileSync(root + page, 'utf8').replaceAll(
    /(<!-- recorded: (.*?) -->\n)```console\n[\s\S]*?```/g,
    (_, mark: string, line: string) => {
      const recording = recordings.get(line)
      if (recording === undefined) throw new Error(`${page}: nothing was recorded of "${line}"`)
      return `${mark}\`\`\`console\n${recording}\`\`\``
    },
  )
}
