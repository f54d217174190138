import assert from 'node:assert/strict'
import { type Answer, reply, withinCap } from '../../core/answer.js'
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
}

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
    name: 'remembers an answer over the cap without its body, and does not run again',
    async run({ store }) {
      const claim = aClaim()
      const answer = withinCap(reply(200, new Uint8Array(11)), 10)
      assert.equal(answer.omittedBytes, 11)
      await store.keyFinish(aFinish(await take(store, claim), { answer }))
      await assertReplays(store, claim, answer)
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
