import { namedThrownText } from '../core/thrown-text.js'

/** What they are notified of is committed. If a notification fails, a worker finds it at its next look. */
export function tellWorkers<Told extends readonly unknown[]>(listeners: ReadonlySet<(...told: Told) => void>, ...told: Told): void {
  for (const listener of listeners) {
    try {
      listener(...told)
    } catch (error) {
      process.emitWarning(`Notifying a worker failed: ${namedThrownText(error)}`, { code: 'ONCEKEY_WORKER' })
    }
  }
}
