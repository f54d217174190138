import assert from 'node:assert/strict'
import { type Answer, reply, withinCap } from '../../core/answer.js'
import { keyId } from '../../core/key.js'
import { aClaim, aFinish, again, assertReplays, type StoreCase, take } from './store-case.js'

const allBytes = Uint8Array.from({ length: 256 }, (_, index) => index)

const answers: Record<string, Answer> = {
  'a JSON answer': reply(201, { id: 'order-1', name: 'Zoë 💶' }, { location: '/orders/order-1' }),
  'an answer without a body': reply(204),
  'a see-other': reply(303, undefined, { location: '/elsewhere' }),
  'every byte there is': reply(200, allBytes, { 'content-type': 'application/octet-stream' }),
  'repeated headers in their order': reply(200, null, [
    ['link', '</a>; rel="next"'],
    ['x-one', '1'],
    ['link', '</b>; rel="prev"'],
    ['x-latin', 'caf\u00e9'],
    ['x-empty', ''],
  ]),
  'a decline': reply(402, { error: 'card_declined' }),
  'a large body': reply(200, new Uint8Array(300_000).fill(7)),
  // An encrypted answer has bytes under any status: stores keep them.
  'bytes under a status that has no body': { status: 204, headers: [['oncekey-test', '1']], body: allBytes },
}

const hexOf = (bytes: Uint8Array | null | undefined) => bytes && Buffer.from(bytes).toString('hex')

export const answerCases: StoreCase[] = [
  ...Object.entries(answers).map(
    ([what, answer]): StoreCase => ({
      name: `replays ${what} byte for byte`,
      async run({ store }) {
        const claim = aClaim()
        await store.keyFinish(aFinish(await take(store, claim), { answer }))
        await assertReplays(store, claim, answer)
        await assertReplays(store, claim, answer)
      },
    }),
  ),
  {
    name: 'gives each who asks bytes and headers to keep: changes to them reach no other',
    async run({ store }) {
      const claim = aClaim()
      const answer = reply(201, { paid: true }, { 'x-one': '1' })
      await store.keyFinish(aFinish(await take(store, claim), { answer }))
      const given = [
        async () => store.keyClaim(again(claim)),
        async () => store.keyPeek(again(claim)),
        async () => store.keyRead(claim),
        async () => (await store.keyReadById({ tenant: claim.tenant, id: keyId(claim) }))?.record,
      ]
      for (const ask of given) {
        const found = await ask()
        assert.ok(found && 'answer' in found && found.answer)
        found.answer.body.fill(0)
        for (const header of found.answer.headers as [string, string][]) header[1] = 'changed'
        await assertReplays(store, claim, answer)
      }
    },
  },
  {
    name: 'remembers an answer over the cap without its body, and does not run again',
    async run({ store }) {
      const small = withinCap(reply(200, new Uint8Array(11)), 10)
      assert.equal(small.omittedBytes, 11)
      const largest = { ...small, omittedBytes: 2 ** 31 - 1 }
      for (const answer of [small, largest]) {
        const claim = aClaim()
        await store.keyFinish(aFinish(await take(store, claim), { answer }))
        await assertReplays(store, claim, answer)
      }
    },
  },
  {
    name: 'keeps the bytes of requests and answers apart that come at the same moment: long, short, empty or none',
    async run({ store }) {
      const bytes = (index: number) => new Uint8Array(index === 5 ? 70_000 : index).fill(index)
      const claims = Array.from({ length: 12 }, (_, index) => aClaim({ request: index % 3 === 1 ? null : bytes(index) }))
      const held = await Promise.all(claims.map((claim) => take(store, claim)))
      const answerOf = (index: number): Answer => ({ status: 200, headers: [], body: bytes(index) })
      await Promise.all(held.map((each, index) => store.keyFinish(aFinish(each, { answer: answerOf(index) }))))
      for (const [index, claim] of claims.entries()) {
        await assertReplays(store, claim, answerOf(index))
        assert.deepEqual(hexOf((await store.keyRead(claim))?.request), hexOf(claim.request))
      }
    },
  },
  {
    name: 'keeps bytes as they were stored, whatever becomes of the buffers they came in',
    async run({ store }) {
      const body = Buffer.from('as it was')
      const request = Buffer.from('as it came')
      const claim = aClaim({ request })
      await store.keyFinish(aFinish(await take(store, claim), { answer: reply(200, body) }))
      body.fill(0)
      request.fill(0)
      await assertReplays(store, claim, reply(200, Buffer.from('as it was')))
      assert.deepEqual([...((await store.keyRead(claim))?.request ?? [])], [...Buffer.from('as it came')])
    },
  },
  {
    name: 'replays a stored failure as a failure, with its reason kept',
    async run({ store }) {
      const claim = aClaim()
      const answer = reply(500, { error: 'broken' })
      await store.keyFinish(aFinish(await take(store, claim), { answer, state: 'failed', reason: 'it broke' }))
      const verdict = await store.keyClaim(again(claim))
      assert.equal(verdict.kind === 'replay' && verdict.state, 'failed')
      assert.equal((await store.keyRead(claim))?.reason, 'it broke')
    },
  },
]
