// Libraries around fetch: they send through the client, and their users see what it says.
import axios, { type AxiosError } from 'axios'
import ky from 'ky'
import { describe, expect, test } from 'vitest'
import { type IdempotentAxiosResponse, idempotentAxios } from '../../src/client/axios.js'
import { type IdempotentResponse, idempotentFetch } from '../../src/client/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { type ServiceOptions, startCharges } from './charges-service.js'
import { startRelay } from './cutting-relay.js'
import { generous, hurriedClock } from './hurried-clock.js'

const database = useDatabase()

async function setup(options: ServiceOptions = {}) {
  const service = await startCharges(database.pool, options)
  const relay = await startRelay(service.port)
  const send = idempotentFetch({ ...generous, clock: hurriedClock(), maxAttempts: 3, owner: 'single' })
  return { service, relay, send, url: `http://127.0.0.1:${relay.port}/charges` }
}

const declined: ServiceOptions = {
  answer: (response) => {
    response.statusCode = 402
  },
}

describe('ky', () => {
  const around = (send: typeof fetch) => ky.create({ fetch: send, retry: 0, timeout: false })

  test('gets the answer of one charge, though answers are lost', async () => {
    const { service, relay, send, url } = await setup()
    relay.loseAnswers(2)
    const response = (await around(send).post(url, { json: { amount: 100 } })) as unknown as IdempotentResponse
    expect([response.status, response.replayed, response.attempts, service.runs()]).toEqual([201, true, 3, 1])
    expect(await response.json()).toEqual({ run: 1, body: '{"amount":100}' })
    expect(await send.pending()).toEqual([])
  })

  test('sends a form with the same bytes each time', async () => {
    const { service, relay, send, url } = await setup()
    relay.loseAnswers(1)
    const body = new FormData()
    body.set('amount', '100')
    expect(await around(send).post(url, { body }).json()).toMatchObject({ run: 1 })
    expect(service.runs()).toBe(1)
  })

  test('throws its own error for a decline, and is stopped by a signal', async () => {
    const { send, url } = await setup(declined)
    await expect(around(send).post(url, { json: {} })).rejects.toMatchObject({ name: 'HTTPError', response: { status: 402 } })
    const signal = AbortSignal.abort()
    await expect(around(send).post(url, { json: {}, signal })).rejects.toMatchObject({ name: 'AbortError' })
  })

  test('takes the key of the caller', async () => {
    const { send, url } = await setup()
    const headers = { 'idempotency-key': 'ky-order' }
    const answers = await Promise.all([around(send).post(url, { json: {}, headers }), around(send).post(url, { json: {}, headers })])
    expect(answers.map((answer) => (answer as unknown as IdempotentResponse).key)).toEqual(['ky-order', 'ky-order'])
    expect(new Set(await Promise.all(answers.map((answer) => answer.text()))).size).toBe(1)
  })
})

describe('axios', () => {
  test('gets the answer of one charge, though answers are lost', async () => {
    const { service, relay, send, url } = await setup()
    relay.loseAnswers(2)
    const response = await idempotentAxios(axios.create(), send).post(url, { amount: 100 })
    expect([response.status, response.data, service.runs()]).toEqual([201, { run: 1, body: '{"amount":100}' }, 1])
    expect(response).toMatchObject({ replayed: true, attempts: 3, key: expect.any(String) })
    expect(await send.pending()).toEqual([])
  })

  test('keeps its interceptors, and sends a form with the same bytes each time', async () => {
    const { service, relay, send, url } = await setup()
    const instance = axios.create()
    instance.interceptors.request.use((config) => {
      config.headers.set('idempotency-key', 'axios-order')
      return config
    })
    idempotentAxios(instance, send)
    relay.loseAnswers(1)
    const body = new FormData()
    body.set('amount', '100')
    expect(await instance.post(url, body)).toMatchObject({ status: 201, replayed: true, attempts: 2, key: 'axios-order' })
    expect(service.runs()).toBe(1)
  })

  test('throws its own errors: for a decline, without an answer, and for a signal', async () => {
    const { relay, send, url } = await setup(declined)
    const instance = idempotentAxios(axios.create(), send)
    const failure = (await instance.post(url, {}).catch((error: unknown) => error)) as AxiosError
    expect(axios.isAxiosError(failure)).toBe(true)
    expect(failure.response).toMatchObject({ status: 402, attempts: 1, replayed: false } satisfies IdempotentAxiosResponse & {
      status: number
    })

    relay.loseAnswers(3)
    const lost = (await instance.post(url, {}).catch((error: unknown) => error)) as AxiosError
    expect([axios.isAxiosError(lost), lost.code]).toEqual([true, 'no_answer'])
    expect(await send.resume()).toMatchObject([{ kind: 'answered', response: { status: 402, replayed: true } }])
    await expect(instance.post(url, {}, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'ERR_CANCELED' })
  })

  test('leaves other instances alone, and other methods without a key', async () => {
    const { send, url, service } = await setup()
    const instance = idempotentAxios(axios.create(), send)
    expect(await instance.get(url)).toMatchObject({ status: 201, attempts: 1, key: undefined })
    expect(await axios.post(url, {})).not.toHaveProperty('attempts')
    expect(service.runs()).toBe(2)
  })
})
