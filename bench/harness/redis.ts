import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createConnection, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { debianProgram } from '../../test/support/debian-program.js'
import { type CpuMeter, treeCpu } from './cpu.js'

export interface Redis {
  readonly url: string
  readonly port: number
  readonly cpu: CpuMeter
  /** Forgets all keys. */
  reset(): Promise<void>
  stop(): Promise<void>
}

const persistence = {
  /** Nothing on disk. */
  none: ['--appendonly', 'no'],
  /** Every write is on disk before it is acknowledged, as in Postgres. */
  always: ['--appendonly', 'yes', '--appendfsync', 'always'],
} as const

const packages = [
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

/** A Redis server of Debian's that cannot outlive this process. Undefined where it cannot be had. */
export async function startRedis(kept: keyof typeof persistence): Promise<Redis | undefined> {
  const program = await debianProgram('redis-server', packages).catch(() => undefined)
  if (!program) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-redis-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const port = await freePort()
  // Rewriting the log is no part of the comparison.
  const parameters = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--auto-aof-rewrite-percentage', '0']
  const guard = fileURLToPath(new URL('../../test/support/guarded-program.mjs', import.meta.url))
  const child = spawn(
    process.execPath,
    [guard, JSON.stringify({ path: program.path, parameters: [...parameters, ...persistence[kept]] })],
    { env: program.env, stdio: ['pipe', 'ignore', 'inherit'], detached: true },
  )
  const gone = once(child, 'exit')
  while (!(await isAnswered(port, 'PING'))) {
    if (child.exitCode !== null) throw new Error('redis-server did not start')
    await delay(50)
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    cpu: treeCpu(child.pid as number),
    async reset() {
      if (!(await isAnswered(port, 'FLUSHALL'))) throw new Error('Redis did not empty itself')
    },
    async stop() {
      child.stdin.end()
      await gone
    },
  }
}

function isAnswered(port: number, command: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ port, host: '127.0.0.1' })
    socket
      .once('error', () => resolve(false))
      .once('data', (answer) => {
        socket.destroy()
        resolve(answer.toString().startsWith('+'))
      })
    socket.write(`${command}\r\n`)
  })
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.on('error', reject).listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number }
      probe.close(() => resolve(port))
    })
  })
}
