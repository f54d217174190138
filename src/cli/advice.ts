import type { KeyStory } from '../stores/postgres/queries/key-story.js'
import { nameOf } from './find-key.js'
import { lasting, moment, printable } from './words.js'

/** What to do about a key: a sentence, and the lines of a command if there is one. */
export interface Advice {
  readonly says: string
  readonly command: readonly string[]
}

export function adviceFor({ key, now }: KeyStory): Advice {
  const name = nameOf(key)
  switch (key.state) {
    case 'complete':
    case 'failed': {
      if (key.expiresAt <= now) return { says: 'Expired: its next use begins a new life.', command: ['oncekey reap'] }
      const until = Number.isFinite(key.expiresAt) ? `until ${moment(key.expiresAt)}` : 'forever'
      return { says: `Nothing to do: retries get this answer ${until}.`, command: [] }
    }
    case 'pending':
      return { says: "Waits for its client's next retry, or a worker. To make it due now:", command: [`oncekey retry ${name}`] }
    case 'processing': {
      const leftMs = (key.leaseUntil ?? now) - now
      if (leftMs > 0) return { says: `In progress: the lease ends in ${lasting(leftMs)} unless it is renewed.`, command: [] }
      if (key.afterFailure === 'rerun')
        return { says: 'The next retry takes it over. To release it now:', command: [`oncekey release ${name}`] }
      return { says: `Outcome unknown: the next retry or a sweep will ${key.afterFailure} it.`, command: ['oncekey sweep'] }
    }
    case 'parked':
      return parked()
  }

  function parked(): Advice {
    const resolve = `oncekey resolve ${name}`
    if (key.parkedStep !== null) {
      const says = `Find out whether '${printable(key.parkedStep)}' took effect, then resolve it:`
      return { says, command: [resolve, '  --happened --result JSON | --did-not-happen | --failed'] }
    }
    if (key.afterFailure === 'rerun') return { says: 'Fix the cause, then:', command: [`oncekey retry ${name}`] }
    return { says: 'Find out whether it took effect, then resolve it:', command: [resolve, '  --did-not-happen | --failed'] }
  }
}
