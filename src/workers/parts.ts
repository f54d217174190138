import { OncekeyError } from '../core/errors.js'
import type { UpkeepStore } from '../core/store.js'
import type { Once } from '../create-once.js'
import type { Counts, ServiceParts } from './service.js'

/** What every worker is given. */
export function workerParts<Tx>(once: Once<Tx>, name: string): Pick<ServiceParts, 'name' | 'clock' | 'random' | 'onRun' | 'onError'> {
  if (typeof once?.internals !== 'object') throw new OncekeyError('option_invalid', `${name}() needs what createOnce() made.`)
  const { clock, random, reportWorker } = once.internals.parts
  return {
    name,
    clock,
    random,
    onRun: (counts: Counts, durationMs: number) => reportWorker({ type: 'worker-ran', worker: name, counts, durationMs }),
    onError: (error: unknown) => reportWorker({ type: 'worker-failed', worker: name, error }),
  }
}

export function upkeepOf<Tx>(once: Once<Tx>, name: string): UpkeepStore {
  const { upkeep } = once.internals.parts.store
  if (upkeep) return upkeep
  throw new OncekeyError('upkeep_unsupported', `This store maintains its keys itself: it needs no ${name}().`)
}

export function checkCount(name: string, value: number): void {
  if (Number.isInteger(value) && value > 0) return
  throw new OncekeyError('option_invalid', `${name} is ${String(value)}: it must be a positive integer.`)
}
