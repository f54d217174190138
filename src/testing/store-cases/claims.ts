import assert from 'node:assert/strict'
import { isOncekeyError } from '../../core/errors.js'
import { createFingerprinter } from '../../core/fingerprint/fingerprint.js'
import { keyId } from '../../core/key.js'
import {
  aClaim,
  aFinish,
  again,
  assertReplays,
  assertSameAnswer,
  fingerprintOf,
  leaseMs,
  type StoreCase,
  second,
  take,
} from './store-case.js'

export const claimCases: StoreCase[] = [
  {
    name: 'gives a new key to the first claim',
    async run({ store }) {
      const claim = aClaim()
      const { lease, recoveryPoint, takenOver } = await take(store, claim)
      assert.deepEqual(lease, { tenant: claim.tenant, id: keyId(claim), incarnation: claim.owner, fence: 1, owner: claim.owner })
      assert.equal(recoveryPoint, null)
      assert.equal(takenOver, false)
    },
  },
  {
    name: 'tells the second claim that the key is in progress, and for how long at most',
    async run({ store, advance }) {
      const claim = aClaim()
      await take(store, claim)
      await advance(4 * second)
      const verdict = await store.keyClaim(again(claim))
      assert.equal(verdict.kind, 'in-progress')
      const left = verdict.kind === 'in-progress' ? verdict.retryAfterMs : 0
      assert.ok(left > 0 && left <= leaseMs - 4 * second, `${left} ms are left`)
    },
  },
  {
    name: 'has one winner among a hundred claims at once',
    async run({ store }) {
      const claim = aClaim()
      const verdicts = await Promise.all(Array.from({ length: 100 }, () => store.keyClaim(again(claim))))
      const kinds = verdicts.map(({ kind }) => kind)
      assert.equal(kinds.filter((kind) => kind === 'execute').length, 1)
      assert.equal(kinds.filter((kind) => kind === 'in-progress').length, 99)
    },
  },
  {
    name: 'recognises a claim whose acknowledgement was lost',
    async run({ store }) {
      const claim = aClaim()
      const first = await take(store, claim)
      const repeated = await take(store, claim)
      assert.deepEqual(repeated.lease, first.lease)
    },
  },
  {
    name: 'recognises a take-over whose acknowledgement was lost',
    async run({ store, advance }) {
      const claim = aClaim()
      await take(store, claim)
      await advance(leaseMs + 1)
      const taker = again(claim)
      const first = await take(store, taker)
      const repeated = await take(store, taker)
      assert.equal(first.lease.fence, 2)
      assert.deepEqual(repeated.lease, first.lease)
    },
  },
  {
    name: 'names the part that differs, in flight and when done, and still replays the original',
    async run({ store }) {
      const claim = aClaim()
      const other = { fingerprint: fingerprintOf({ amount: 999 }) }
      const held = await take(store, claim)
      assert.deepEqual(await store.keyClaim(again(claim, other)), { kind: 'mismatch', part: 'body' })
      await store.keyFinish(aFinish(held))
      assert.deepEqual(await store.keyClaim(again(claim, other)), { kind: 'mismatch', part: 'body' })
      await assertReplays(store, claim)
    },
  },
  {
    name: 'compares fingerprints made with an earlier secret',
    async run({ store }) {
      const older = { id: 'older', secret: 'an older secret of good length' }
      const newer = { id: 'newer', secret: 'a newer secret of good length' }
      const before = createFingerprinter({ secrets: [older] })
      const after = createFingerprinter({ secrets: [newer, older] })
      const claim = aClaim({ fingerprint: before({ value: 1 }) })
      await store.keyFinish(aFinish(await take(store, claim)))
      await assertReplays(store, { ...claim, fingerprint: after({ value: 1 }) })
      const mismatch = await store.keyClaim(again(claim, { fingerprint: after({ value: 2 }) }))
      assert.equal(mismatch.kind, 'mismatch')
    },
  },
  {
    name: 'compares nothing when either side has no fingerprint',
    async run({ store }) {
      const without = aClaim({ fingerprint: null })
      await store.keyFinish(aFinish(await take(store, without)))
      await assertReplays(store, { ...without, fingerprint: fingerprintOf('anything') })
      const withOne = aClaim()
      await store.keyFinish(aFinish(await take(store, withOne)))
      await assertReplays(store, { ...withOne, fingerprint: null })
    },
  },
  {
    name: 'keeps tenants, scopes and keys apart, to the letter',
    async run({ store }) {
      const claim = aClaim({ key: 'é' })
      const twins = [
        { tenant: `${claim.tenant}2` },
        { scope: 'orders.cancel' },
        { key: 'É' },
        // The same letter in another Unicode normalisation form.
        { key: 'e\u0301' },
        { key: 'é ' },
        { tenant: `${claim.tenant}o`, scope: 'rders.create' },
      ]
      await take(store, claim)
      for (const twin of twins) assert.equal((await take(store, again(claim, twin))).lease.fence, 1)
    },
  },
  {
    name: 'takes any well-formed Unicode up to the cap',
    async run({ store }) {
      const tenant = `${crypto.randomUUID()}-"'\\;--💶${'𝄞'.repeat(50)}`
      const claim = aClaim({ tenant, scope: '漢字\n\t\u007f', key: '🔑'.repeat(127) })
      await store.keyFinish(aFinish(await take(store, claim)))
      await assertReplays(store, claim)
      const record = await store.keyRead(claim)
      assert.deepEqual([record?.tenant, record?.scope, record?.key], [claim.tenant, claim.scope, claim.key])
    },
  },
  {
    name: 'refuses keys, tenants and scopes that cannot be kept, with a code',
    async run({ store }) {
      const bad: unknown[] = ['', 'x'.repeat(256), 'a\0b', '\uD800', 42, null, undefined, {}]
      for (const value of bad) {
        for (const [part, code] of [
          ['tenant', 'tenant_invalid'],
          ['scope', 'scope_invalid'],
          ['key', 'key_invalid'],
        ] as const) {
          const claim = { ...aClaim(), [part]: value } as ReturnType<typeof aClaim>
          await assert.rejects(store.keyClaim(claim), (error) => isOncekeyError(error, code), `${part} ${String(value)}`)
        }
      }
    },
  },
  {
    name: 'keeps the request for a later run, and forgets it with the incarnation',
    async run({ store }) {
      const request = new Uint8Array([0, 1, 2, 254, 255])
      const claim = aClaim({ request })
      await take(store, claim)
      assert.deepEqual([...((await store.keyRead(claim))?.request ?? [])], [...request])
      assert.equal(await store.keyRead(aClaim()), undefined)
    },
  },
  {
    name: "forgets a key when the claim that began it is withdrawn, and leaves one that is not this claim's alone",
    async run({ store }) {
      const claim = aClaim()
      await take(store, claim)
      assert.equal(await store.keyWithdraw(again(claim)), 'absent')
      assert.equal((await store.keyClaim(again(claim))).kind, 'in-progress')
      assert.equal(await store.keyWithdraw(claim), 'done')
      assert.equal(await store.keyRead(claim), undefined)
      assert.equal(await store.keyWithdraw(claim), 'absent')
    },
  },
  {
    name: 'gives a key back at its place when the claim that took it over is withdrawn',
    async run({ store }) {
      const claim = aClaim()
      await store.keyRelease(await take(store, claim))
      const second = again(claim)
      await take(store, second)
      assert.equal(await store.keyWithdraw(second), 'done')
      const { lease, takenOver } = await take(store, again(claim))
      assert.deepEqual([lease.fence, takenOver], [3, true])
    },
  },
  {
    name: 'forgets a key whose claim is withdrawn after its lease has ended, but not what a retry was given, nor a holder that came since',
    async run({ store, advance }) {
      const [settled, parked, taken] = [aClaim({ afterFailure: 'store' }), aClaim({ afterFailure: 'park' }), aClaim()]
      for (const claim of [settled, parked, taken]) await take(store, claim)
      await advance(leaseMs + second)
      const replayed = await store.keyClaim(again(settled))
      assert.equal(replayed.kind, 'replay')
      assert.equal((await store.keyClaim(again(parked))).kind, 'parked')
      await take(store, again(taken))
      assert.equal(await store.keyWithdraw(parked), 'done')
      assert.equal(await store.keyRead(parked), undefined)
      assert.equal(await store.keyWithdraw(settled), 'absent')
      const replayedAgain = await store.keyClaim(again(settled))
      assert.ok(replayed.kind === 'replay' && replayedAgain.kind === 'replay')
      assertSameAnswer(replayedAgain.answer, replayed.answer)
      assert.equal(await store.keyWithdraw(taken), 'absent')
      assert.equal((await store.keyClaim(again(taken))).kind, 'in-progress')
    },
  },
  {
    name: 'withdraws nothing that is finished',
    async run({ store }) {
      const claim = aClaim()
      await store.keyFinish(aFinish(await take(store, claim)))
      assert.equal(await store.keyWithdraw(claim), 'absent')
      await assertReplays(store, claim)
    },
  },
]
