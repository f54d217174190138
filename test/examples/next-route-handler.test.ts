// The route handler of the example. Every day it is called as Next.js calls it, with a Request; Next.js itself takes ten seconds of a core and more
// to start, so it serves it in long runs, as its README says: from `next dev`, and from a build.
import { cp, mkdir, realpath, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, relative } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startProgram } from '../support/guarded-program.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { expectOneChargeAfterKill, expectOneOrderEach } from './orders-services.js'
import { ownPort } from './own-port.js'
import { root } from './process.js'

const long = process.env.ONCEKEY_LONG === '1'
const database = useDatabase({ migrated: false })
const path = '/api/orders'

if (!long) {
  test('next-route-handler makes and charges each order once', async () => {
    vi.stubEnv('DATABASE_URL', database.url)
    const { POST } = await import('../../examples/next-route-handler/app/api/orders/route.js')
    const { pool, prepare } = await import('../../examples/next-route-handler/orders.js')
    vi.unstubAllEnvs()
    const background = await prepare()
    const server = createServer(async (request, response) => {
      const { method = '', url = '', headers } = request
      const body = await text(request)
      const answer = await POST(new Request(`http://localhost${url}`, { method, headers: headers as Record<string, string>, body }))
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
    }).listen(0)
    onTestFinished(async () => {
      server.close()
      await background.stop()
      await pool.end()
    })
    await expectOneOrderEach(`http://localhost:${(server.address() as AddressInfo).port}${path}`, database)
  })
}

/** A copy of the example, in a folder that is ignored: Next.js writes into its own. */
async function copyOfExample(): Promise<string> {
  const folder = join(root, '.data/examples/next')
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  await cp(join(root, 'examples/next-route-handler'), folder, { recursive: true })
  // node_modules may be a link to another place. Next.js compiles nothing from outside of this folder.
  const common = commonFolder(await realpath(root), await realpath(join(root, 'node_modules')))
  await writeFile(join(folder, 'next.config.mjs'), `export default { turbopack: { root: ${JSON.stringify(common)} } }\n`)
  return folder
}

function commonFolder(one: string, other: string): string {
  return relative(one, other).startsWith('..') ? commonFolder(join(one, '..'), other) : one
}

function runNext(folder: string, parameters: readonly string[], databaseUrl = database.url) {
  const env = { ...process.env, DATABASE_URL: databaseUrl, NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: undefined }
  const next = join(root, 'node_modules/.bin/next')
  const program = startProgram({ path: 'sh', env }, ['-c', 'cd "$0" && exec "$@"', folder, next, ...parameters])
  onTestFinished(() => program.kill())
  return program
}

async function startNext(command: 'dev' | 'start', folder: string) {
  const port = await ownPort()
  const url = `http://localhost:${port}`
  const program = runNext(folder, [command, '--port', String(port)])
  const answers = () => {
    if (!program.isRunning()) throw new Error(`next ${command} ended: ${program.output()}`)
    return fetch(`${url}${path}`).then(
      ({ ok }) => ok,
      () => false,
    )
  }
  await waitUntil('Next.js answers', answers, 180_000)
  return { url, kill: () => program.kill() }
}

if (long) {
  const title = 'next-route-handler makes and charges each order once in next dev, and in a build that is killed in the middle of a charge'
  test(title, { timeout: 600_000 }, async () => {
    const folder = await copyOfExample()
    const dev = await startNext('dev', folder)
    await expectOneOrderEach(`${dev.url}${path}`, database)
    await dev.kill()

    // It needs no database.
    const build = runNext(folder, ['build'], 'postgres://localhost:1/nobody')
    await waitUntil('it is built', () => !build.isRunning(), 300_000)
    expect(build.output()).toMatch(/ƒ \/api\/orders/)
    const first = await startNext('start', folder)
    await expectOneChargeAfterKill(first, startNext('start', folder), database, path)
  })
}
