import type { Contender, Sample } from '../harness/contender.js'
import type { CpuMeter } from '../harness/cpu.js'
import { perOperation } from '../harness/load.js'
import type { Outbox } from './contender.js'

/** Long past any honest run. */
const deadlineMs = 300_000

/** From the start of the workers on a full table until the last job is settled. */
export function drains(outbox: Outbox, jobs: number, serverCpu: CpuMeter): Contender {
  return {
    name: outbox.name,
    async run() {
      await outbox.clear()
      await outbox.fill(jobs)
      let handled = 0
      let tellAll = () => {}
      const all = new Promise<void>((resolve) => {
        tellAll = resolve
      })
      const cpu = processorTime(serverCpu)
      const begin = performance.now()
      const worker = await outbox.deliver(() => {
        handled += 1
        if (handled === jobs) tellAll()
      }, 'throughput')
      await within(all, `${outbox.name} handles ${jobs} jobs`)
      await worker.stop()
      const elapsedMs = performance.now() - begin
      const used = cpu(jobs)
      const left = await outbox.left()
      if (handled !== jobs || left !== 0) throw new Error(`${outbox.name} handled ${handled} of ${jobs} jobs, and ${left} are left`)
      return { operations: jobs, perSecond: (1_000 * jobs) / elapsedMs, meanMs: null, p50Ms: null, p99Ms: null, ...used }
    },
  }
}

/** From the acknowledged commit of a job until its handler begins, one job after the other on idle workers. */
export function startsEach(outbox: Outbox, jobs: number, serverCpu: CpuMeter): Contender {
  return {
    name: outbox.name,
    async run(): Promise<Sample> {
      await outbox.clear()
      const handledAt = new Map<number, number>()
      let tell = () => {}
      const worker = await outbox.deliver((job) => {
        handledAt.set(job, performance.now())
        tell()
      }, 'latency')
      const cpu = processorTime(serverCpu)
      const begin = performance.now()
      const latencies: number[] = []
      for (let job = 0; job < jobs; job += 1) {
        // Idle, but not always for the same time: a poll must not march in step with it.
        await new Promise((resolve) => setTimeout(resolve, 20 + ((job * 7) % 60)))
        const committedAt = await outbox.stage(job)
        const handled = new Promise<void>((resolve) => {
          tell = resolve
        })
        if (!handledAt.has(job)) await within(handled, `${outbox.name} handles a job`)
        latencies.push(Math.max(0, (handledAt.get(job) as number) - committedAt))
      }
      const elapsedMs = performance.now() - begin
      const used = cpu(jobs)
      await worker.stop()
      latencies.sort((one, other) => one - other)
      const at = (share: number) => latencies[Math.min(jobs - 1, Math.floor(jobs * share))] as number
      return { operations: jobs, perSecond: (1_000 * jobs) / elapsedMs, meanMs: null, p50Ms: at(0.5), p99Ms: at(0.99), ...used }
    },
  }
}

async function within(done: Promise<void>, what: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`gave up waiting until ${what}`)), deadlineMs)
  })
  await Promise.race([done, late]).finally(() => clearTimeout(timer))
}

/** What this process and the server used since, for each of so many jobs. */
function processorTime(serverCpu: CpuMeter): (jobs: number) => Pick<Sample, 'clientCpuMicros' | 'serverCpuMicros'> {
  const serverBefore = serverCpu()
  const before = process.cpuUsage()
  return (jobs) => {
    const { user, system } = process.cpuUsage(before)
    return { clientCpuMicros: (user + system) / jobs, serverCpuMicros: perOperation(serverCpu() - serverBefore, jobs) }
  }
}
