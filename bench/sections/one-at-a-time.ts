import type { Contender, Group } from '../harness/contender.js'
import { interleave, type Rounds } from '../harness/rounds.js'
import type { BenchServer } from '../harness/server.js'
import { startService } from '../http/start-service.js'
import { warmUp } from '../http/warm-up.js'
import { findWrk, noWrk } from '../http/wrk.js'
import { plainStatements } from './plain-statements.js'
import { adapterWays, type Framework, loneTitle, serviceName } from './titles.js'

/** Longer turns than elsewhere: one request at a time, they are few. */
const times = 2

/** One connection, which waits for each answer before it sends the next request: how most services live. */
export async function measureOneAtATime(
  server: BenchServer,
  { rounds, seconds, adapters, notes }: Rounds & { adapters: readonly Framework[]; notes: string[] },
): Promise<Group[]> {
  const load = await findWrk()
  if (!load) {
    notes.push(noWrk('one request at a time'))
    return []
  }
  const plain = await plainStatements(server)
  if (typeof plain === 'string') notes.push(plain)
  const groups: Group[] = []
  for (const framework of adapters) {
    const services = await Promise.all(adapterWays.map((way) => startService({ framework, way, databaseUrl: server.url })))
    await warmUp(load, services, seconds)
    for (const mode of ['new', 'replay'] as const) {
      await server.reset()
      const prefixes = adapterWays.map(() => crypto.randomUUID())
      if (mode === 'replay') {
        // All hot keys are stored: one connection would not get through them in a turn.
        for (const [index, service] of services.entries()) {
          await load(service, { outstanding: 64, seconds: 2 }, { mode, prefix: prefixes[index] as string }, server.cpu)
        }
      }
      const contenders = services.map((service, index): Contender => {
        const prefix = () => (mode === 'replay' ? (prefixes[index] as string) : crypto.randomUUID())
        const run: Contender['run'] = (turn) => load(service, turn, { mode, prefix: prefix() }, server.cpu)
        return { name: serviceName(framework, adapterWays[index] as (typeof adapterWays)[number]), run }
      })
      if (typeof plain !== 'string') contenders.push(plain[mode])
      groups.push(await interleave({ title: loneTitle(framework, mode), outstanding: 1, rounds, seconds: times * seconds, contenders }))
    }
    await Promise.all(services.map((service) => service.stop()))
  }
  return groups
}
