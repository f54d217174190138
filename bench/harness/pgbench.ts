import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { debianProgram } from '../../test/support/debian-program.js'
import type { Sample } from './contender.js'
import { endedChildrenCpu } from './cpu.js'
import { perOperation } from './load.js'
import type { BenchServer } from './server.js'

export const noPgbench = 'pgbench is not on the PATH (on Debian: apt-get install postgresql): what is measured against it is left out.'

/** As the store sends its statements by default, and as it does behind a pooler. */
const protocols = { prepared: 'prepared', unprepared: 'extended' } as const
export type Protocol = keyof typeof protocols

/** `rows`: keys per transaction. */
interface PgbenchTurn {
  readonly clients: number
  readonly seconds: number
  readonly rows: number
}

const reapedMs = 200
const execute = promisify(execFile)
let folder: string | undefined

/** Writes a script for `-f`; it is gone when this process ends. */
export function scriptFile(name: string, lines: readonly string[]): string {
  if (!folder) {
    const made = mkdtempSync(join(tmpdir(), 'oncekey-pgbench-'))
    process.on('exit', () => rmSync(made, { recursive: true, force: true }))
    folder = made
  }
  const file = join(folder, `${name}.sql`)
  writeFileSync(file, `${lines.join('\n')}\n`)
  return file
}

/** Runs scripts against the server from a process that does nothing else. Undefined where pgbench cannot be had. */
export async function findPgbench(server: BenchServer) {
  const program = await debianProgram('pgbench', ['postgresql']).catch(() => undefined)
  if (!program) return undefined
  const { path, env } = program
  return { run, sample }

  async function run(protocol: Protocol, parameters: readonly string[]): Promise<string> {
    const { stdout } = await execute(path, ['-n', '-M', protocols[protocol], ...parameters, server.url], {
      env,
      maxBuffer: 16 * 1024 * 1024,
    })
    return stdout
  }

  async function sample(protocol: Protocol, parameters: readonly string[], { clients, seconds, rows }: PgbenchTurn): Promise<Sample> {
    const cpuBefore = endedChildrenCpu()
    const serverBefore = server.cpu()
    const length = Math.max(1, Math.round(seconds))
    const output = await run(protocol, [...parameters, '-c', `${clients}`, '-j', `${Math.min(2, clients)}`, '-T', `${length}`])
    // Until the server has reaped the backends of pgbench, their time may be missing from its own.
    await delay(reapedMs)
    const operations = rows * Number(/actually processed: (\d+)/.exec(output)?.[1])
    return {
      operations,
      perSecond: rows * Number(/^tps = ([\d.]+)/m.exec(output)?.[1]),
      meanMs: Number(/^latency average = ([\d.]+) ms/m.exec(output)?.[1]),
      p50Ms: null,
      p99Ms: null,
      clientCpuMicros: perOperation(endedChildrenCpu() - cpuBefore, operations),
      serverCpuMicros: perOperation(server.cpu() - serverBefore, operations),
    }
  }
}
