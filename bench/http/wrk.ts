import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { debianProgram } from '../../test/support/debian-program.js'
import type { Sample, Turn } from '../harness/contender.js'
import type { CpuMeter } from '../harness/cpu.js'
import { perOperation } from '../harness/load.js'
import type { HttpMode } from '../sections/titles.js'
import type { Service } from './start-service.js'

/** Share of the answers. */
const mostRefused = 0.001
const run = promisify(execFile)
const script = fileURLToPath(new URL('./orders.lua', import.meta.url))
const millisecondsPer: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1_000, m: 60_000 }

export type Load = NonNullable<Awaited<ReturnType<typeof findWrk>>>

export const noWrk = (what: string) => `wrk is not on the PATH (on Debian: apt-get install wrk): ${what} is left out.`

/** Drives a service from a process of its own, with one thread: the other core is the service's. Undefined where wrk cannot be had. */
export async function findWrk() {
  const program = await debianProgram('wrk', ['wrk', 'libluajit-5.1-2']).catch(() => undefined)
  if (!program) return undefined
  return async (
    service: Service,
    { outstanding, seconds }: Turn,
    keys: { mode: HttpMode; prefix: string },
    serverCpu: CpuMeter,
  ): Promise<Sample> => {
    const ownBefore = service.cpu()
    const serverBefore = serverCpu()
    const length = `${Math.max(1, Math.round(seconds))}s`
    const parameters = ['-t1', `-c${outstanding}`, `-d${length}`, '--latency', '--timeout', '10s', '-s', script, service.url]
    const { stdout } = await run(program.path, [...parameters, '--', keys.mode, keys.prefix], { env: program.env })
    const refused = Number(/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? 0)
    const failed = /Socket errors: (.*)/.exec(stdout)?.[1]
    const answered = Number(/(\d+) requests in/.exec(stdout)?.[1])
    // A key that is repeated while a slow moment still holds it up is refused, and rightly.
    if (failed || refused > mostRefused * answered) {
      throw new Error(`${service.url}, ${keys.mode}: ${refused} of ${answered} refused; ${failed ?? 'no socket errors'}`)
    }
    const operations = answered - refused
    return {
      operations,
      perSecond: (Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]) * operations) / answered,
      meanMs: milliseconds(/^\s+Latency\s+(\S+)/m.exec(stdout)?.[1]),
      p50Ms: percentile(stdout, 50),
      p99Ms: percentile(stdout, 99),
      clientCpuMicros: perOperation(service.cpu() - ownBefore, operations),
      serverCpuMicros: perOperation(serverCpu() - serverBefore, operations),
    }
  }
}

function percentile(output: string, share: number): number | null {
  return milliseconds(new RegExp(`^\\s+${share}%\\s+(\\S+)`, 'm').exec(output)?.[1])
}

function milliseconds(text = ''): number | null {
  const [, value, unit] = /^([\d.]+)(us|ms|s|m)$/.exec(text) ?? []
  return value && unit ? Number(value) * (millisecondsPer[unit] as number) : null
}
