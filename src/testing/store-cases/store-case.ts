import assert from 'node:assert/strict'
import { type Answer, reply } from '../../core/answer.js'
import { createFingerprinter } from '../../core/fingerprint/fingerprint.js'
import { resolveRetention } from '../../core/retention.js'
import type { KeyClaim, KeyFinish, KeyStore, Verdict } from '../../core/store.js'
import type { StoreHarness } from '../exercise-store.js'

export interface StoreCase<Tx = never> {
  /** The outcome, in the present tense. */
  readonly name: string
  run(harness: StoreHarness<Tx>): Promise<void>
}

export const second = 1_000
export const hour = 3_600_000

/** Long enough for any machine; only `advance()` moves time. */
export const leaseMs = 600 * second

/** Keys of one day, counted from creation, with a floor of one hour. */
export const oneDay = resolveRetention('24h', '1h')

const takeFingerprint = createFingerprinter()

export const fingerprintOf = (value: unknown) => takeFingerprint({ method: 'POST', path: '/orders', value })

/** A claim on its own key by default. Each call is another claimer. */
export function aClaim(changes: Partial<KeyClaim> = {}): KeyClaim {
  return {
    tenant: `tenant-${crypto.randomUUID()}`,
    scope: 'orders.create',
    key: 'key-1',
    owner: crypto.randomUUID(),
    fingerprint: fingerprintOf({ amount: 100 }),
    leaseMs,
    retention: oneDay,
    afterFailure: 'rerun',
    request: null,
    worker: false,
    ...changes,
  }
}

/** The same request, sent by another claimer. */
export function again(claim: KeyClaim, changes: Partial<KeyClaim> = {}): KeyClaim {
  return { ...claim, owner: crypto.randomUUID(), ...changes }
}

export type Execute = Extract<Verdict, { kind: 'execute' }>

/** Claims a free key. */
export async function take(store: KeyStore, claim: KeyClaim): Promise<Execute> {
  const verdict = await store.keyClaim(claim)
  assert.equal(verdict.kind, 'execute')
  return verdict as Execute
}

export const anAnswer: Answer = reply(201, { id: 'order-1' }, { location: '/orders/order-1' })

export function aFinish({ lease }: Execute, changes: Partial<KeyFinish> = {}): KeyFinish {
  return { lease, state: 'complete', answer: anAnswer, retention: oneDay, ...changes }
}

/** Bytes may come back as a Buffer: compare their content. */
export function assertSameAnswer(actual: Answer | null | undefined, expected: Answer): void {
  const plain = (answer: Answer | null | undefined) => {
    assert.ok(!answer || answer.body instanceof Uint8Array, 'the body of an answer is a Uint8Array')
    return answer && { ...answer, body: Buffer.from(answer.body).toString('hex') }
  }
  assert.deepEqual(plain(actual), plain(expected))
}

export async function assertReplays(store: KeyStore, claim: KeyClaim, answer: Answer = anAnswer): Promise<void> {
  const verdict = await store.keyClaim(again(claim))
  assert.equal(verdict.kind, 'replay')
  assertSameAnswer(verdict.kind === 'replay' ? verdict.answer : null, answer)
}
