import { mkdtempSync, rmSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { debianProgram } from './debian-program.js'
import { freePort, startProgram } from './guarded-program.js'
import { waitUntil } from './wait-until.js'

export interface RedisServer {
  readonly url: string
  readonly port: number
  /** Of the process above the server. */
  readonly pid: number
  /** Forgets all keys. */
  reset(): Promise<void>
  /** Ends it with SIGKILL. What it keeps stays. */
  kill(): Promise<void>
  /** Starts it again after a kill, on the same port, with what it has kept. */
  start(): Promise<void>
  /** Ends it, and removes what it has kept. */
  stop(): Promise<void>
}

const persistence = {
  /** Nothing on disk. */
  none: ['--appendonly', 'no'],
  /** Every write is on disk before it is acknowledged, as in Postgres. */
  always: ['--appendonly', 'yes', '--appendfsync', 'always'],
} as const

export const redisPackages = [
  'redis-server',
  'redis-tools',
  'libjemalloc2',
  'liblua5.1-0',
  'liblzf1',
  'libatomic1',
  'libhiredis0.14',
  'lua-bitop',
  'lua-cjson',
]

/** A Redis server of our own, from the PATH or from Debian's packages, that cannot outlive this process. */
export async function startRedis(kept: keyof typeof persistence): Promise<RedisServer> {
  const program = await debianProgram('redis-server', redisPackages)
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-redis-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  const port = await freePort()
  const parameters = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', ...persistence[kept]]

  async function start() {
    // Rewriting the log is no part of any comparison.
    const server = startProgram(program, [...parameters, '--auto-aof-rewrite-percentage', '0'])
    await waitUntil('Redis answers', () => {
      if (!server.isRunning()) throw new Error(`redis-server did not start: ${server.output()}`)
      return isAnswered(port, 'PING')
    })
    return server
  }

  let server = await start()
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    get pid() {
      return server.pid
    },
    async reset() {
      if (!(await isAnswered(port, 'FLUSHALL'))) throw new Error('Redis did not empty itself')
    },
    kill: () => server.kill(),
    async start() {
      server = await start()
    },
    async stop() {
      await server.kill()
      process.removeListener('exit', remove)
      remove()
    },
  }
}

/** The server of REDIS_URL, else one of our own without persistence. Tests on it keep to keys of their own: others may be on it too. */
export async function redisForTests(): Promise<Pick<RedisServer, 'url' | 'stop'>> {
  const url = process.env.REDIS_URL
  return url ? { url, stop: async () => {} } : startRedis('none')
}

export function isAnswered(port: number, command: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ port, host: '127.0.0.1' })
    socket
      .once('error', () => resolve(false))
      // No answer, and no more to come: it is still reading its log, or gone.
      .once('close', () => resolve(false))
      .once('data', (answer) => {
        resolve(answer.toString().startsWith('+'))
        socket.destroy()
      })
    socket.write(`${command}\r\n`)
  })
}
