// The page of quick starts, tried from the packed package: exactly its files, exactly its lines, and what it says comes back. Every day with the
// packages of this repository and on the suite's Postgres, as the page says to change them; `npm run try:quick-starts` installs them from npm
// into empty folders, runs them as they stand there, and says how long it takes until an answer is replayed.
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest'
import { startProgram } from '../support/guarded-program.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { ownPort } from './own-port.js'
import { root } from './process.js'
import { type Exchange, onPostgres, type QuickStart, quickStarts } from './quick-start-page.js'

const installs = process.env.ONCEKEY_QUICK_STARTS === 'install'
const run = promisify(execFile)

/** Outside of the repository, so that nothing is found by accident. */
let place: string
let tarball: string
beforeAll(async () => {
  place = await mkdtemp(join(tmpdir(), 'oncekey-quick-starts-'))
  // As it was built: other tests use that build now.
  const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', place], { cwd: root })
  tarball = join(place, stdout.trim())
  if (!installs) await linkPackages()
})
afterAll(() => rm(place, { recursive: true, force: true }))

/** What `npm install` would bring: the package as it is packed, and everything else from this repository. */
async function linkPackages(): Promise<void> {
  const modules = join(place, 'node_modules')
  await mkdir(join(modules, 'oncekey'), { recursive: true })
  await run('tar', ['-xzf', tarball, '--strip-components', '1', '-C', join(modules, 'oncekey')])
  for (const name of await readdir(join(root, 'node_modules'))) {
    if (name !== 'oncekey') await symlink(join(root, 'node_modules', name), join(modules, name))
  }
}

const starts = quickStarts().map((start) => ({ ...start, database: useDatabase() }))

test('there is a quick start for each framework', () => {
  expect(starts.map(({ name }) => name)).toEqual(['Express', 'Fastify', 'Hono', 'Koa', 'NestJS', 'Next.js', 'node:http'])
})

// Next.js does not follow packages that are linked to from outside of its folder.
const tried = installs ? starts : starts.filter(({ name }) => name !== 'Next.js')
const each = installs ? test.for(tried) : test.concurrent.for(tried)

each('$name: what the page says comes back, and is replayed', async ({ database, ...start }, context) => {
  const folder = join(place, start.name.replace(/\W/g, '-'))
  await mkdir(folder)
  const began = performance.now()
  if (installs) for (const line of start.install) await shell(line.replace('oncekey', tarball), folder)
  const server = await startServer(start, folder, { DATABASE_URL: database.url }, context)
  const [first, again] = start.exchanges as [Exchange, Exchange]

  const answer = await server.type(first.line)
  expectAnswer(answer, first)
  const replay = await server.type(again.line)
  const seconds = Math.round((performance.now() - began) / 100) / 10
  expectAnswer(replay, again)
  expect(replay.body).toBe(answer.body)
  if (installs) console.log(`${start.name}: ${seconds} s from npm init to the first replay`)

  expect((await server.type(first.line.replace('tea', 'coffee'))).status).toMatch(/ 422 /)
  expect((await server.type(first.line.replace(/-H 'Idempotency-Key: .*?'/, ''))).status).toMatch(/ 400 /)

  if (!installs) return
  await server.kill()
  const anew = await startServer(start, folder, {}, context)
  expect(await anew.type(again.line)).toMatchObject({ status: again.status, body: answer.body })
})

const shell = (line: string, cwd: string) => run('sh', ['-c', line], { cwd })

/** Writes the files of the page and runs what it says, on another port: somebody may have 3000. */
async function startServer(start: QuickStart, folder: string, env: Record<string, string>, { onTestFinished }: TestContext) {
  const port = String(await ownPort())
  for (const { path, text } of start.files) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), (installs ? text : onPostgres(text)).replaceAll('3000', port))
  }
  const line = installs ? start.run : start.run.replace(/^npx /, `${join(root, 'node_modules/.bin')}/`)
  const program = { path: 'sh', env: { ...process.env, ...env, PORT: port } }
  const server = startProgram(program, ['-c', 'cd "$0" && exec $1', folder, line])
  onTestFinished(() => server.kill())
  const listens = () => {
    if (!server.isRunning()) throw new Error(`${start.name}: "${line}" ended. ${server.output()}`)
    return isListening(Number(port))
  }
  await waitUntil(`${start.name} listens`, listens, 120_000)
  return {
    kill: () => server.kill(),
    /** A line of the page, and what it prints. */
    async type(typed: string) {
      const { stdout } = await shell(typed.replaceAll('3000', port), folder)
      const [head = '', body = ''] = stdout.split('\r\n\r\n')
      const [status = '', ...headers] = head.split('\r\n')
      return { status, headers, body }
    },
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ port, host: 'localhost' })
    socket
      .once('error', () => resolve(false))
      .once('connect', () => {
        socket.destroy()
        resolve(true)
      })
  })
}

function expectAnswer(answer: { status: string; headers: string[]; body: string }, { status, headers, body }: Exchange): void {
  expect(answer.status).toBe(status)
  expect(answer.headers).toEqual(expect.arrayContaining([...headers]))
  expect(answer.headers.some((line) => /^idempotent-replayed:/i.test(line))).toBe(headers.length > 0)
  expect(answer.body).toMatch(body)
}
