import { type Answer, checkAnswer } from '../core/answer.js'
import { OncekeyError } from '../core/errors.js'
import { checkKeyRef, type KeyRef } from '../core/key.js'
import { resolvePolicy } from '../core/policy.js'
import { storableText } from '../core/storable-text.js'
import type { Resolution, StepStore } from '../core/store.js'
import type { EngineParts } from '../engine/parts.js'
import { resultJson } from './result-json.js'

/** A person's word on a parked key. */
export type ResolveAs =
  /** The call took effect; `result` is what it would have returned. The next attempt goes on after it. */
  | { readonly as: 'happened'; readonly result?: unknown; readonly by?: string }
  /** It did not, or the code was fixed: the next attempt makes it (again). */
  | { readonly as: 'did-not-happen'; readonly by?: string }
  /** The operation ends here; every retry gets this answer. */
  | { readonly as: 'failed'; readonly reply: Answer; readonly by?: string }

export async function resolve<Tx>(parts: EngineParts, store: StepStore<Tx>, ref: KeyRef, word: ResolveAs): Promise<void> {
  const by = storableText(word.by ?? 'unnamed')
  const result = await store.keyResolve({ ...checkKeyRef(ref), resolution: resolutionOf(parts, word), by })
  if (result === 'done') return parts.report(ref, { type: 'resolved', as: word.as, by })
  throw new OncekeyError(
    'resolve_conflict',
    result === 'not-parked'
      ? `The key ${ref.key} is not parked, or not any more: look at it again before you decide.`
      : `The key ${ref.key} is not parked over a call, so nothing can have happened: resolve it as did-not-happen or failed.`,
  )
}

function resolutionOf(parts: EngineParts, word: ResolveAs): Resolution {
  switch (word.as) {
    case 'happened':
      return { as: 'happened', result: resultJson('the resolution', word.result) }
    case 'did-not-happen':
      return { as: 'did-not-happen' }
    case 'failed':
      return { as: 'failed', answer: checkAnswer(word.reply), retention: resolvePolicy(parts.defaults).retention }
  }
}
