import type { Clock } from '../../core/clock.js'
import type { TurnStore } from '../../core/store.js'

/** Turns within the one process. */
export function memoryTurns(clock: Clock): TurnStore {
  const turns = new Map<string, { readonly holder: string; readonly until: number }>()
  /** When each is due next. */
  const due = new Map<string, number>()
  const isHeldBy = (name: string, holder: string) => turns.get(name)?.holder === holder

  return {
    async turnTake({ name, holder, turnMs, early }) {
      const now = clock.now()
      if ((turns.get(name)?.until ?? now) > now) return undefined
      if (!early && (due.get(name) ?? now) > now) return undefined
      turns.set(name, { holder, until: now + turnMs })
      return { now }
    },

    async turnKeep({ name, holder, turnMs }) {
      if (!isHeldBy(name, holder)) return false
      turns.set(name, { holder, until: clock.now() + turnMs })
      return true
    },

    async turnEnd({ name, holder, nextInMs }) {
      if (!isHeldBy(name, holder)) return
      turns.delete(name)
      due.set(name, clock.now() + nextInMs)
    },
  }
}
