import { reply } from '../../core/answer.js'
import { OncekeyError } from '../../core/errors.js'
import type { Store } from '../../core/store.js'
import { createOnce, type Once } from '../../create-once.js'
import type { StandardSchema } from '../../phases/input.js'
import type { AdapterApp, AdapterHarness } from '../exercise-adapter.js'
import type { AdapterNeeds, Bench } from './adapter-case.js'
import { type Sent, send } from './client.js'
import { signatureOf } from './signature.js'

/** Long enough for any machine. */
const lease = '10m'

export async function openBench<Tx>(harness: AdapterHarness<Tx>, { options, maxAnswerBytes }: AdapterNeeds): Promise<Bench> {
  let runs = 0
  let received: Uint8Array = new Uint8Array()
  let finish = async () => {}
  let broken = false
  const tenant = `tenant-${crypto.randomUUID()}`
  const store = watched(harness.store, { beforeFinish: () => finish(), isBroken: () => broken })
  const once = createOnce({ store, lease, storeTimeout: '2s', ...(maxAnswerBytes === undefined ? {} : { maxAnswerBytes }) })

  const operation = harness.store.steps && operationOf(once, () => (runs += 1))
  const consumer =
    harness.store.steps &&
    once.consumer('exercise.consumer', { tenant }, async (_, { body }) => {
      runs += 1
      if (body === 'unlucky' && runs === 1) throw new Error('unlucky')
    })

  const app: AdapterApp<Tx> = {
    once,
    options: { afterFailure: 'rerun', ...options },
    async handle({ body }) {
      runs += 1
      received = body
      return bench.handler(runs)
    },
    acceptance: { respond: 'async', location: (id) => `/async/${id}`, pollAfter: '3s' },
    signatures: {
      async verify({ header, body }) {
        const signature = await signatureOf(header('webhook-id') ?? '', body)
        if (header('Webhook-Signature') !== signature) return undefined
        return { id: header('webhook-id') as string, body: JSON.parse(new TextDecoder().decode(body)) }
      },
    },
    ...(operation ? { operation } : {}),
    ...(consumer ? { consumer } : {}),
  }
  const server = await harness.start(app)

  const standard: Sent = {
    method: 'POST',
    path: '/work',
    key: '"key-1"',
    tenant,
    headers: { 'content-type': 'application/json' },
    body: '{"item":"tea"}',
  }
  const bench: Bench = {
    url: server.url,
    runs: () => runs,
    received: () => received,
    handler: (run) => ({ status: 201, headers: [['location', '/orders/1']], body: { json: { run } } }),
    send: (request = {}) => send(server.url, { ...standard, ...request }),
    beforeFinish(action) {
      finish = action
    },
    breakStore(now) {
      broken = now
    },
    keyState: async () => (await harness.store.keyRead({ tenant, scope: 'POST /work', key: 'key-1' }))?.state,
    async carryOut() {
      await operation?.resume({ tenant, key: 'key-1' })
    },
    tenant,
    close: async () => {
      await server.close()
    },
  }
  return bench
}

/** The same store, which can be made to wait or fail. */
function watched<Tx>(store: Store<Tx>, { beforeFinish, isBroken }: { beforeFinish(): Promise<void>; isBroken(): boolean }): Store<Tx> {
  const unlessBroken = () => {
    if (isBroken()) throw new OncekeyError('store_unavailable', 'The store cannot be reached.')
  }
  return new Proxy(store, {
    get(target, name) {
      const property = Reflect.get(target, name, target)
      if (typeof property !== 'function') return property
      return async (...args: unknown[]) => {
        if (name === 'keyFinish') await beforeFinish()
        unlessBroken()
        return property.apply(target, args)
      }
    },
  })
}

/** Orders with a quantity; the first attempt at a quantity of 13 fails after its first phase. */
function operationOf<Tx>(once: Once<Tx>, ran: () => number) {
  return once.operation('exercise.operation', { input: orderSchema }, async (run, { quantity }) => {
    const order = await run.phase('created', () => ({ number: ran() }))
    if (quantity === 13 && run.attempt === 1) throw new Error('unlucky')
    return reply(201, { ...order, quantity }, { location: `/orders/${order.number}` })
  })
}

const orderSchema: StandardSchema<{ quantity: number }> = {
  '~standard': {
    version: 1,
    vendor: 'oncekey',
    validate(value) {
      const { quantity } = (value ?? {}) as { quantity?: unknown }
      return typeof quantity === 'number' ? { value: { quantity } } : { issues: [{ message: 'quantity is a number', path: ['quantity'] }] }
    },
  },
}
