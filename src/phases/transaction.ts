import { crashPoint, isSimulatedCrash } from '../core/crash-points.js'
import type { StepStore } from '../core/store.js'
import type { EngineParts } from '../engine/parts.js'
import { storeTimeout } from '../engine/patience.js'

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
 * lost is looked up, not repeated blindly. What the work throws comes out as it is; what the transaction throws, in our words.
 */
export async function commitTogether<Tx, T>(parts: EngineParts, store: StepStore<Tx>, together: Together<Tx, T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    const tried = await tryOnce(parts, store, together)
    if ('value' in tried) return tried.value
    const { error, stage } = tried
    if (isSimulatedCrash(error)) throw error
    const failure = store.failureOf(error)
    const inDoubt = error instanceof CommittedBefore || (stage === 'committing' && failure === 'connection')
    const before = inDoubt ? await together.committedBefore() : undefined
    if (before) return before.value
    const again = inDoubt || failure === 'serialization'
    if (!again || tries >= maxTries) throw stage === 'working' ? error : store.troubleOf(error)
  }
}

type Stage = 'beginning' | 'working' | 'committing'

async function tryOnce<Tx, T>(
  parts: EngineParts,
  store: StepStore<Tx>,
  { name, run }: Together<Tx, T>,
): Promise<{ readonly value: T } | { readonly error: unknown; readonly stage: Stage }> {
  let stage: Stage = 'beginning'
  try {
    crashPoint(`${name}:before`)
    const value = await begun(parts, store, async (tx) => {
      stage = 'working'
      crashPoint(`${name}:begun`)
      const value = await run(tx)
      crashPoint(`${name}:written`)
      stage = 'committing'
      return value
    })
    crashPoint(`${name}:committed`)
    return { value }
  } catch (error) {
    return { error, stage }
  }
}

/** A transaction that cannot begin in time must not begin later, when nobody waits for it any more. */
function begun<Tx, T>({ clock, storeTimeoutMs }: EngineParts, store: StepStore<Tx>, work: (tx: Tx) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let isLate = false
    const cancel = clock.schedule(() => {
      isLate = true
      reject(storeTimeout())
    }, storeTimeoutMs)
    const inTime = async (tx: Tx) => {
      if (isLate) throw storeTimeout()
      cancel()
      return work(tx)
    }
    store.transaction(inTime).finally(cancel).then(resolve, reject)
  })
}

/** Makes the user's transaction roll back, because an earlier try turned out to have been committed. */
export class CommittedBefore extends Error {}
