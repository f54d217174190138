import { unknownCpu } from '../harness/cpu.js'
import type { Service } from './start-service.js'
import type { Load } from './wrk.js'

/** Code is compiled while it runs: so many requests pass until a service is about as fast as it gets. */
const enough = 40_000
/** For services that are slow. */
const mostTurns = 5

export async function warmUp(load: Load, services: Iterable<Service>, seconds: number) {
  for (const service of services) {
    const turn = { outstanding: 64, seconds: 3 * seconds }
    for (let turns = 0, answered = 0; turns < mostTurns && answered < enough; turns += 1) {
      answered += (await load(service, turn, { mode: 'new', prefix: crypto.randomUUID() }, unknownCpu)).operations
    }
  }
}
