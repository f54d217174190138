import { crashPoint, isSimulatedCrash } from '../core/crash-points.js'
import type { StepStore } from '../core/store.js'

/** A transaction that loses against another one this often has a problem that repeating does not solve. */
const maxTries = 20

export interface Together<Tx, T> {
  /** For crash points. */
  readonly name: string
  /** The user's writes and, as its last statement, ours. May run several times: what it did before is rolled back. */
  run(tx: Tx): Promise<T>
  /** What an earlier try committed, if it did: asked when its acknowledgement was lost. */
  committedBefore(): Promise<{ readonly value: T } | undefined>
}

/**
 * The user's writes and ours in one commit. Serialization failures and deadlocks repeat the whole; a commit whose acknowledgement was
 * lost is looked up, not repeated blindly.
 */
export async function commitTogether<Tx, T>(store: StepStore<Tx>, { name, run, committedBefore }: Together<Tx, T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    let committing = false
    try {
      crashPoint(`${name}:before`)
      const value = await store.transaction(async (tx) => {
        committing = false
        crashPoint(`${name}:begun`)
        const value = await run(tx)
        crashPoint(`${name}:written`)
        committing = true
        return value
      })
      crashPoint(`${name}:committed`)
      return value
    } catch (error) {
      if (isSimulatedCrash(error)) throw error
      const failure = store.failureOf(error)
      const inDoubt = error instanceof CommittedBefore || (committing && failure === 'connection')
      const before = inDoubt ? await committedBefore() : undefined
      if (before) return before.value
      const again = inDoubt || failure === 'serialization'
      if (!again || tries >= maxTries) throw error
    }
  }
}

/** Makes the user's transaction roll back, because an earlier try turned out to have been committed. */
export class CommittedBefore extends Error {}
