import type { Once } from '../create-once.js'
import { type CompleterOptions, completer } from './completer.js'
import { type ReaperOptions, reaper } from './reaper.js'
import { type RelayOptions, relay } from './relay.js'
import type { Counts, Service } from './service.js'
import { type SweeperOptions, sweeper } from './sweeper.js'

export interface WorkersOptions {
  /** `false`: not in this process. */
  sweeper?: SweeperOptions | false
  completer?: CompleterOptions | false
  reaper?: ReaperOptions | false
  /** Default: none, because it needs sinks. */
  relay?: RelayOptions | false
}

/**
 * All background work of a service. Run it in any number of processes: they share the work.
 *
 * @example
 * const background = workers(once)
 * background.start()
 * process.once('SIGTERM', async () => {
 *   await Promise.all([background.stop(), once.stop({ within: '20s' })])
 * })
 */
export function workers<Tx>(once: Once<Tx>, options: WorkersOptions = {}): Service {
  const services = [
    ...(options.sweeper === false ? [] : [sweeper(once, options.sweeper)]),
    ...(options.completer === false ? [] : [completer(once, options.completer)]),
    ...(options.reaper === false ? [] : [reaper(once, options.reaper)]),
    ...(options.relay ? [relay(once, options.relay)] : []),
  ]
  return {
    name: 'workers',
    start() {
      for (const service of services) service.start()
    },
    async stop() {
      await Promise.all(services.map((service) => service.stop()))
    },
    /** In this order, one run completes a key that a crash left. */
    async runOnce(): Promise<Counts> {
      const all: [string, number][] = []
      for (const service of services) {
        for (const [what, count] of Object.entries(await service.runOnce())) all.push([`${service.name}.${what}`, count])
      }
      return Object.fromEntries(all)
    },
  }
}
