import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { memoryStore } from '../stores/memory/index.js'
import { manualClock } from '../testing/index.js'
import { aClaim, aFinish, again, anAnswer, leaseMs, take } from '../testing/store-cases/store-case.js'
import { keyId } from './key.js'
import { sealedStore } from './sealed-store.js'
import { sealedHeader } from './sealing.js'
import type { KeyStore, Store } from './store.js'
import { outcomeUnknown } from './system-answers.js'

const encryption = { keys: [{ id: 'k1', key: randomBytes(32) }] }
const rotated = { keys: [{ id: 'k2', key: randomBytes(32) }, ...encryption.keys] }
const replaced = { keys: rotated.keys.slice(0, 1) }
const request = new TextEncoder().encode('{"token":"a secret"}')

function setup() {
  const clock = manualClock()
  const plain = memoryStore({ clock })
  return { clock, plain, store: sealedStore(plain, encryption) }
}

const answerOf = async (store: KeyStore, claim: ReturnType<typeof aClaim>) => {
  const verdict = await store.keyClaim(again(claim))
  return verdict.kind === 'replay' || verdict.kind === 'parked' ? verdict.answer : verdict
}

describe('sealedStore', () => {
  test('seals what it stores, and opens it in each verdict and record', async () => {
    const { plain, store } = setup()
    const claim = aClaim({ request })
    const held = await take(store, claim)
    expect(held.request).toEqual(request)
    await store.keyFinish(aFinish(held))

    const kept = await plain.keyRead(claim)
    expect(kept?.answer).toMatchObject({ status: 201, headers: [[sealedHeader, 'k1']] })
    expect(Buffer.from(kept?.answer?.body ?? []).includes('order-1')).toBe(false)
    expect(Buffer.from(kept?.request ?? []).includes('secret')).toBe(false)

    expect(await answerOf(store, claim)).toEqual(anAnswer)
    expect(await store.keyPeek(again(claim))).toMatchObject({ kind: 'replay', answer: anAnswer })
    expect(await store.keyRead(claim)).toEqual({ ...kept, answer: anAnswer, request })
  })

  test('seals the answer of a parked key too', async () => {
    const { plain, store } = setup()
    const claim = aClaim()
    await store.keyPark({ lease: (await take(store, claim)).lease, answer: anAnswer, reason: 'a test' })
    expect((await plain.keyRead(claim))?.answer?.headers).toEqual([[sealedHeader, 'k1']])
    expect(await answerOf(store, claim)).toEqual(anAnswer)
    expect(await store.keyPeek(again(claim))).toEqual({ kind: 'parked', answer: anAnswer })
  })

  test('seals the request of a key that is left to workers, and opens it for them and for those who read it by its id', async () => {
    const { plain, store } = setup()
    const claim = aClaim({ request })
    const wanted = { tenant: claim.tenant, id: keyId(claim) }
    await store.keyEnqueue(claim)
    const kept = await plain.keyReadById(wanted)
    expect(Buffer.from(kept?.record.request ?? []).includes('secret')).toBe(false)
    expect((await store.keyReadById(wanted))?.record.request).toEqual(request)

    const held = await take(store, again(claim, { worker: true, request: null }))
    expect(held.request).toEqual(request)
    await store.keyFinish(aFinish(held))
    expect((await plain.keyReadById(wanted))?.record.answer?.headers).toEqual([[sealedHeader, 'k1']])
    expect((await store.keyReadById(wanted))?.record.answer).toEqual(anAnswer)
    expect(await store.keyEnqueue(again(claim))).toMatchObject({ kind: 'replay', answer: anAnswer })
    await expect(sealedStore(plain).keyReadById(wanted)).rejects.toMatchObject({ code: 'encryption_key_missing' })
    await expect(sealedStore(plain).keyEnqueue(again(claim))).rejects.toMatchObject({ code: 'encryption_key_missing' })
  })

  test('lets answers pass that were stored in the clear: before it was switched on, or by the store itself', async () => {
    const { clock, plain, store } = setup()
    const before = aClaim({ request })
    await plain.keyFinish(aFinish(await take(plain, before)))
    expect(await answerOf(store, before)).toEqual(anAnswer)
    expect((await store.keyRead(before))?.request).toEqual(request)

    for (const afterFailure of ['store', 'park'] as const) {
      const gone = aClaim({ afterFailure })
      await take(store, gone)
      clock.advance(leaseMs + 1)
      expect(await store.keyClaim(again(gone))).toMatchObject({ answer: outcomeUnknown, settled: true })
      expect(await answerOf(store, gone)).toEqual(outcomeUnknown)
    }
  })

  test('changes nothing without encryption, but never lets what is sealed pass', async () => {
    const { plain, store } = setup()
    const off = sealedStore(plain)
    const open = aClaim({ request })
    await off.keyFinish(aFinish(await take(off, open)))
    expect(await plain.keyRead(open)).toMatchObject({ answer: anAnswer, request })
    expect(await answerOf(off, open)).toEqual(anAnswer)

    const sealed = aClaim({ request })
    await store.keyFinish(aFinish(await take(store, sealed)))
    for (const act of [() => off.keyClaim(again(sealed)), () => off.keyPeek(again(sealed)), () => off.keyRead(sealed)]) {
      await expect(act()).rejects.toMatchObject({ code: 'encryption_key_missing', status: 500 })
    }
  })

  test('opens what an earlier key sealed, for as long as that is in the list', async () => {
    const { plain, store } = setup()
    const claim = aClaim()
    await store.keyFinish(aFinish(await take(store, claim)))
    const later = sealedStore(plain, rotated)
    expect(await answerOf(later, claim)).toEqual(anAnswer)
    const next = aClaim()
    await later.keyFinish(aFinish(await take(later, next)))
    expect((await plain.keyRead(next))?.answer?.headers).toEqual([[sealedHeader, 'k2']])
    await expect(answerOf(store, next)).rejects.toMatchObject({ code: 'encryption_key_missing' })
    await expect(answerOf(sealedStore(plain, replaced), claim)).rejects.toMatchObject({ code: 'encryption_key_missing' })
  })

  test('does not open what was copied from another key', async () => {
    const { plain, store } = setup()
    const [from, to] = [aClaim({ request }), aClaim({ request })]
    for (const claim of [from, to]) await store.keyFinish(aFinish(await take(store, claim)))
    const copied: Store = {
      ...plain,
      keyClaim: () => plain.keyClaim(again(from)),
      keyPeek: () => plain.keyPeek(again(from)),
      keyRead: () => plain.keyRead(from),
    }
    const store2 = sealedStore(copied, encryption)
    for (const act of [() => store2.keyClaim(again(to)), () => store2.keyPeek(again(to)), () => store2.keyRead(to)]) {
      await expect(act()).rejects.toMatchObject({ code: 'answer_unreadable', status: 500 })
    }
    expect(await answerOf(store2, from)).toEqual(anAnswer)
  })

  test('gives a key back whose request it cannot open, as it was, for who can', async () => {
    const { clock, plain, store } = setup()
    const claim = aClaim({ request, afterFailure: 'park' })
    await store.keyRelease({ lease: (await take(store, claim)).lease })
    const other = sealedStore(plain, replaced)
    await expect(other.keyClaim(again(claim))).rejects.toMatchObject({ code: 'encryption_key_missing' })
    expect(await plain.keyRead(claim)).toMatchObject({ state: 'pending', fence: 2, reason: 'the stored request could not be opened' })
    // Left with its lease, it would now count as crashed and be parked, although nothing was run.
    clock.advance(leaseMs + 1)
    expect(await take(store, again(claim))).toMatchObject({ takenOver: true, request })
  })

  test('says that the request cannot be opened even if the key cannot be given back', async () => {
    const { plain, store } = setup()
    const claim = aClaim({ request })
    await store.keyRelease({ lease: (await take(store, claim)).lease })
    const keyRelease = () => Promise.reject(new Error('the store is gone'))
    const other = sealedStore({ ...plain, keyRelease }, replaced)
    await expect(other.keyClaim(again(claim))).rejects.toMatchObject({ code: 'encryption_key_missing' })
  })

  test.each([undefined, encryption])('leaves it to the store to refuse what is no key (%o)', async (options) => {
    const store = sealedStore(memoryStore(), options)
    for (const [part, code] of Object.entries({ tenant: 'tenant_invalid', scope: 'scope_invalid', key: 'key_invalid' })) {
      for (const bad of ['', null, undefined, 42, '\uD800']) {
        const claim = aClaim({ request, [part]: bad })
        await expect(store.keyClaim(claim)).rejects.toMatchObject({ code })
        await expect(store.keyPeek(claim)).rejects.toMatchObject({ code })
      }
    }
  })

  test('calls the verbs of a store that is a class as its methods', async () => {
    class OwnStore {
      readonly #memory = memoryStore()
      readonly durability = 'best-effort'
      keyClaim(...args: Parameters<Store['keyClaim']>) {
        return this.#memory.keyClaim(...args)
      }
      keyEnqueue(...args: Parameters<Store['keyEnqueue']>) {
        return this.#memory.keyEnqueue(...args)
      }
      keyHeartbeat(...args: Parameters<Store['keyHeartbeat']>) {
        return this.#memory.keyHeartbeat(...args)
      }
      keyFinish(...args: Parameters<Store['keyFinish']>) {
        return this.#memory.keyFinish(...args)
      }
      keyRelease(...args: Parameters<Store['keyRelease']>) {
        return this.#memory.keyRelease(...args)
      }
      keyPark(...args: Parameters<Store['keyPark']>) {
        return this.#memory.keyPark(...args)
      }
      keyPeek(...args: Parameters<Store['keyPeek']>) {
        return this.#memory.keyPeek(...args)
      }
      keyWithdraw(...args: Parameters<Store['keyWithdraw']>) {
        return this.#memory.keyWithdraw(...args)
      }
      keyRead(...args: Parameters<Store['keyRead']>) {
        return this.#memory.keyRead(...args)
      }
      keyReadById(...args: Parameters<Store['keyReadById']>) {
        return this.#memory.keyReadById(...args)
      }
      keyReap(...args: Parameters<Store['keyReap']>) {
        return this.#memory.keyReap(...args)
      }
    }
    const store = sealedStore(new OwnStore(), encryption)
    expect([store.durability, 'steps' in store]).toEqual(['best-effort', false])
    const [finished, released, parked] = [aClaim(), aClaim(), aClaim()]
    const held = await take(store, finished)
    expect(await store.keyHeartbeat({ leases: [{ ...held.lease, leaseMs }] })).toEqual(['renewed'])
    expect(await store.keyFinish(aFinish(held))).toBe('done')
    expect(await store.keyRelease((await take(store, released)) as never)).toBe('done')
    expect(await store.keyPark({ lease: (await take(store, parked)).lease, answer: anAnswer, reason: '' })).toBe('done')
    expect(await store.keyPeek(again(finished))).toMatchObject({ answer: anAnswer })
    expect(await store.keyRead(aClaim())).toBeUndefined()
    const queued = aClaim()
    expect(await store.keyEnqueue(queued)).toEqual({ kind: 'enqueued', id: keyId(queued) })
    expect(await store.keyReadById({ tenant: queued.tenant, id: keyId(queued) })).toMatchObject({ record: { async: true } })
    expect(await store.keyReap({ limit: 1 })).toBe(0)
  })

  test('takes a store that is sealed already', async () => {
    const { plain, store } = setup()
    for (const twice of [sealedStore(store), sealedStore(store, replaced)]) {
      const claim = aClaim({ request })
      await twice.keyFinish(aFinish(await take(twice, claim)))
      expect(await twice.keyRead(claim)).toMatchObject({ answer: anAnswer, request })
      expect(Buffer.from((await plain.keyRead(claim))?.request ?? []).includes('secret')).toBe(false)
    }
  })
})
