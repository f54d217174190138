import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { codeOf } from '../test/support/code-of.js'
import { type Answer, reply } from './core/answer.js'
import { sealedHeader } from './core/sealing.js'
import { createOnce, type OnceOptions } from './create-once.js'
import type { OnceEvent } from './engine/events.js'
import type { ExecuteOptions } from './engine/execute.js'
import { memoryStore } from './stores/memory/index.js'

const ref = { tenant: 'tenant', scope: 'orders.create', key: 'key-1' }
const request: ExecuteOptions = { ...ref, fingerprint: { value: 1 }, afterFailure: 'rerun' }
const encryption = { keys: [{ id: 'k1', key: randomBytes(32).toString('base64') }] }
const whole = reply(201, { token: 'a secret' }, { 'set-cookie': 'session=a', 'x-token': 'a secret', location: '/1', 'request-id': 'req_1' })

const neverRun = () => {
  throw new Error('must not run')
}

function setup(options: Partial<OnceOptions> = {}) {
  const events: OnceEvent[] = []
  const store = memoryStore()
  const create = (changes: Partial<OnceOptions> = {}) =>
    createOnce({ store, onEvent: (event) => events.push(event), ...options, ...changes })
  return { store, events, create, once: create() }
}

describe('what is stored of an answer', () => {
  test('is not what the first caller gets: headers that must not be replayed are left out', async () => {
    const { once } = setup({ neverStore: ['X-Token'] })
    const first = await once.execute(request, () => whole)
    expect(first.kind === 'executed' && first.answer).toBe(whole)
    expect(await once.execute(request, neverRun)).toMatchObject({
      kind: 'replayed',
      answer: {
        ...whole,
        headers: [
          ['location', '/1'],
          ['original-request', 'req_1'],
          ['content-type', 'application/json'],
        ],
      },
    })
  })

  test('is what redact says', async () => {
    const redacted = reply(201, { token: '…' })
    const { once, events } = setup({ redact: () => redacted })
    const first = await once.execute(request, () => whole)
    expect(first.kind === 'executed' && first.answer).toBe(whole)
    expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'replayed', answer: redacted })
    expect(events.map(({ type }) => type)).toEqual(['executing', 'finished', 'replayed'])
  })

  test('is the status alone when redact fails, which is told, and the work does not run again', async () => {
    const error = new Error('a mistake')
    const { once, events, store } = setup({
      redact() {
        throw error
      },
    })
    expect(await once.execute(request, () => whole)).toMatchObject({ kind: 'executed', answer: whole, stored: true })
    expect(events).toEqual([
      { ...ref, type: 'executing', attempt: 1 },
      { ...ref, type: 'redaction-failed', error },
      { ...ref, type: 'finished', status: 201 },
    ])
    const kept = { status: 201, headers: [], body: new Uint8Array(), omittedBytes: whole.body.length }
    expect((await store.keyRead(ref))?.answer).toEqual(kept)
    expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'replayed', answer: kept })
  })

  test('is encrypted if it should be, and the cap is on the plain body', async () => {
    const { once, store } = setup({ encryption, maxAnswerBytes: whole.body.length })
    const withRequest = { ...request, request: new TextEncoder().encode('a secret request') }
    await once.execute(withRequest, () => whole)
    const record = await store.keyRead(ref)
    expect(record?.answer).toMatchObject({ status: 201, headers: [[sealedHeader, 'k1']] })
    expect(record?.answer?.omittedBytes).toBeUndefined()
    for (const bytes of [record?.answer?.body, record?.request]) expect(Buffer.from(bytes ?? []).includes('secret')).toBe(false)
    expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'replayed', answer: { status: 201, body: whole.body } })
  })

  test.each<[string, Answer]>([
    ['nothing', reply(204)],
    ['bytes', reply(200, randomBytes(1000))],
    ['repeated headers', reply(200, null, { link: ['</a>', '</b>'] })],
  ])('replays %s the same, encrypted or not', async (_, answer) => {
    for (const options of [{}, { encryption }]) {
      const { once } = setup(options)
      await once.execute(request, () => answer)
      const replay = await once.execute(request, neverRun)
      expect(replay).toMatchObject({ kind: 'replayed', answer: { ...answer, body: new Uint8Array(answer.body) } })
    }
  })
})

describe('an answer that cannot be opened', () => {
  const other = { keys: [{ id: 'k1', key: randomBytes(32) }] }

  test.each<[string, string, Partial<OnceOptions>]>([
    ['without encryption', 'encryption_key_missing', {}],
    ['without its key', 'encryption_key_missing', { encryption: { keys: [{ id: 'k2', key: randomBytes(32) }] } }],
    ['with another key of that id', 'answer_unreadable', { encryption: other }],
  ])('is an error %s, and runs nothing, however often it is asked for', async (_, code, options) => {
    const { once, create, events } = setup({ encryption })
    await once.execute(request, () => whole)
    const later = create({ encryption: undefined as never, ...options })
    for (const _ of ['first', 'again']) await expect(later.execute(request, neverRun)).rejects.toMatchObject({ code, status: 500 })
    expect(events.map(({ type }) => type)).toEqual(['executing', 'finished', 'not-claimed', 'not-claimed'])
    expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'replayed' })
  })
})

test('refuses wrong options at once', () => {
  const wrong = { neverStore: ['x:y'], redact: 'token', encryption: { keys: [{ id: 'k', key: 'short' }] } }
  for (const [name, value] of Object.entries(wrong)) {
    expect([name, codeOf(() => createOnce({ store: memoryStore(), [name]: value } as OnceOptions))]).toEqual([name, 'option_invalid'])
  }
  expect(codeOf(() => createOnce({ store: memoryStore(), encryption: null as never }))).toBe('option_invalid')
})
