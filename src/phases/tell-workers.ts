import { namedThrownText } from '../core/thrown-text.js'

/** What they are told of is committed, whatever becomes of those who are told: somebody will look for it later. */
export function tellWorkers<Told extends readonly unknown[]>(listeners: ReadonlySet<(...told: Told) => void>, ...told: Told): void {
  for (const listener of listeners) {
    try {
      listener(...told)
    } catch (error) {
      process.emitWarning(`Notifying a worker failed: ${namedThrownText(error)}`, { code: 'ONCEKEY_WORKER' })
    }
  }
}
