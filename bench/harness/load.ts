import type { Sample, Turn } from './contender.js'
import type { CpuMeter } from './cpu.js'

/** Keeps so many operations outstanding in this process, each followed by the next, and measures them. */
export async function closedLoop({ outstanding, seconds }: Turn, serverCpu: CpuMeter, operation: () => Promise<unknown>): Promise<Sample> {
  const latencies: number[] = []
  const serverBefore = serverCpu()
  const cpuBefore = process.cpuUsage()
  const begin = performance.now()
  const end = begin + seconds * 1_000
  const lane = async () => {
    for (let from = performance.now(); from < end; ) {
      await operation()
      const now = performance.now()
      latencies.push(now - from)
      from = now
    }
  }
  await Promise.all(Array.from({ length: outstanding }, lane))
  const elapsedMs = performance.now() - begin
  const { user, system } = process.cpuUsage(cpuBefore)
  const operations = latencies.length
  return {
    operations,
    perSecond: (1_000 * operations) / elapsedMs,
    meanMs: latencies.reduce((sum, latency) => sum + latency, 0) / operations,
    ...percentiles(latencies),
    clientCpuMicros: (user + system) / operations,
    serverCpuMicros: perOperation(serverCpu() - serverBefore, operations),
  }
}

function percentiles(latencies: readonly number[]): { p50Ms: number; p99Ms: number } {
  const sorted = Float64Array.from(latencies).sort()
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { p50Ms: at(0.5), p99Ms: at(0.99) }
}

export function perOperation(milliseconds: number, operations: number): number | null {
  return Number.isNaN(milliseconds) ? null : (1_000 * milliseconds) / operations
}
