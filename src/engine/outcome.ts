import type { Answer, BodyOf, Reply } from '../core/answer.js'
import type { FingerprintPart } from '../core/fingerprint/fingerprint.js'
import type { KeyRef } from '../core/key.js'
import type { Verdict } from '../core/store.js'
import { holderGone } from '../core/system-answers.js'
import type { EngineParts } from './parts.js'

/** `incarnation` is this life of the key: the same for the run and all its replays, new once the key has expired and is used again. */
export type Outcome<R extends Answer = Reply> =
  /** The work ran now. `stored: false`: its answer was not stored, and `error` says why. */
  | { readonly kind: 'executed'; readonly answer: Reply<BodyOf<R>>; readonly incarnation: string; readonly stored: true }
  | {
      readonly kind: 'executed'
      readonly answer: Reply<BodyOf<R>>
      readonly incarnation: string
      readonly stored: false
      readonly error: unknown
    }
  /** The work ran before; this is its stored answer. */
  | { readonly kind: 'replayed'; readonly answer: Reply<BodyOf<R>>; readonly incarnation: string; readonly state: 'complete' }
  /** The system or a person ended the key with this error. */
  | { readonly kind: 'replayed'; readonly answer: Answer; readonly incarnation: string; readonly state: 'failed' }
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  | { readonly kind: 'mismatch'; readonly part: FingerprintPart }
  | { readonly kind: 'parked'; readonly answer: Answer }

/** The outcome of a claim that does not execute; also reports it. */
export function outcomeOf<R extends Answer>(
  { report }: Pick<EngineParts, 'report'>,
  ref: KeyRef,
  verdict: Exclude<Verdict, { kind: 'execute' }>,
): Exclude<Outcome<R>, { kind: 'executed' }> {
  switch (verdict.kind) {
    case 'replay': {
      const { incarnation } = verdict
      if (verdict.settled) report(ref, { type: 'failed', error: new Error(holderGone) })
      report(ref, { type: 'replayed', state: verdict.state })
      return { kind: 'replayed', answer: verdict.answer as Reply<BodyOf<R>>, incarnation, state: verdict.state as 'complete' }
    }
    case 'in-progress':
      report(ref, { type: 'met-in-progress', retryAfterMs: verdict.retryAfterMs })
      return { kind: 'in-progress', retryAfterMs: verdict.retryAfterMs }
    case 'mismatch':
      report(ref, { type: 'mismatched', part: verdict.part })
      return { kind: 'mismatch', part: verdict.part }
    case 'parked':
      if (verdict.settled) report(ref, { type: 'parked', error: new Error(holderGone) })
      report(ref, { type: 'met-parked' })
      return { kind: 'parked', answer: verdict.answer }
  }
}
