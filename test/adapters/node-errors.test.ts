// node:http has no framework that answers what is thrown: the adapter does, and no request ends the process.
import type { IncomingMessage } from 'node:http'
import { afterEach, beforeEach, expect, type MockInstance, test, vi } from 'vitest'
import { idempotency, type NodeOptions, serve } from '../../src/adapters/node.js'
import { OncekeyError } from '../../src/core/errors.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type Handler, startService, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

let printed: MockInstance<typeof console.error>
beforeEach(() => {
  printed = vi.spyOn(console, 'error').mockImplementation(() => {})
})
afterEach(() => {
  printed.mockRestore()
})

const start = (handler: Handler, options: NodeOptions & { tenant?: (request: IncomingMessage) => string } = {}, onceOptions = {}) =>
  startService(
    database,
    ({ once, options: standard, ran }) =>
      idempotency(once, { ...standard, ...options })((request, response) => {
        ran()
        return handler(request, response)
      }),
    onceOptions,
  )

const outOfTea = () => {
  throw new Error('out of tea')
}

test('a listener that throws: 500, the error is printed, and a retry runs again', async () => {
  const service = await start((_request, response) => {
    response.setHeader('content-length', 100).setHeader('x-pot', '1')
    if (service.runs() === 1) outOfTea()
    response.setHeader('content-length', 3).end('tea')
  })
  const failed = await service.send()
  expect([failed.status, failed.body.length, failed.lines('x-pot')]).toEqual([500, 0, []])
  expect(printed.mock.calls).toEqual([[new Error('out of tea')]])
  expect((await service.send()).body.toString()).toBe('tea')
})

test('a listener that rejects is the same', async () => {
  const service = await start(async () => outOfTea())
  expect([(await service.send()).status, printed.mock.calls.length]).toEqual([500, 1])
})

test('a request that is not protected is answered, too', async () => {
  const service = await start(outOfTea)
  expect((await service.send({ method: 'PUT' })).status).toBe(500)
})

test('a listener that throws in the middle of its answer: the client is cut off, and a retry runs again', async () => {
  const service = await start((_request, response) => {
    if (service.runs() > 1) return response.end('tea')
    response.write('a pot ')
    return outOfTea()
  })
  await expect(service.send()).rejects.toThrow()
  await waitUntil('the key is free', async () => (await service.keyState()) === 'pending')
  expect((await service.send()).body.toString()).toBe('tea')
})

test('a listener that throws after its answer: the answer counts', async () => {
  const service = await start((_request, response) => {
    response.end('tea')
    outOfTea()
  })
  expect([(await service.send()).body.toString(), (await service.send()).body.toString(), service.runs()]).toEqual(['tea', 'tea', 1])
  expect(printed).toHaveBeenCalledTimes(1)
})

test('a tenant that throws, or is none: 500, and nothing runs', async () => {
  const throwing = await start((_request, response) => response.end(), { tenant: outOfTea })
  expect([(await throwing.send()).status, throwing.runs()]).toEqual([500, 0])
  const missing = await start((_request, response) => response.end(), { tenant: (request) => request.headers['x-nobody'] as string })
  expect([(await missing.send()).status, missing.runs()]).toEqual([500, 0])
  expect(printed.mock.calls).toMatchObject([[{ message: 'out of tea' }], [{ code: 'tenant_invalid' }]])
})

test('a store that fails for good: 500, and nothing runs', async () => {
  const store = postgresStore(fromPg(database.pool))
  const keyClaim = async () => {
    throw new OncekeyError('store_failed', 'no such table')
  }
  const service = await start((_request, response) => response.end(), {}, { store: { ...store, keyClaim } })
  expect([(await service.send()).status, service.runs()]).toEqual([500, 0])
})

test('onError answers in its own way, and is given all it needs', async () => {
  const service = await start(outOfTea, {
    async onError(error, request, response) {
      response.writeHead(418, { 'x-method': request.method }).end((error as Error).message)
    },
  })
  const answered = await service.send()
  expect([answered.status, answered.lines('x-method'), answered.body.toString()]).toEqual([418, ['POST'], 'out of tea'])
  // A 4xx, so it is the answer.
  expect([(await service.send()).status, service.runs()]).toEqual([418, 1])
  expect(printed).not.toHaveBeenCalled()
})

test.each<[string, NodeOptions['onError']]>([
  ['throws', outOfTea],
  ['rejects', async () => outOfTea()],
])('onError that %s itself: 500, and its error is printed', async (_name, onError) => {
  const service = await start(
    () => {
      throw new Error('the first one')
    },
    { onError: onError as NonNullable<typeof onError> },
  )
  expect((await service.send()).status).toBe(500)
  expect(printed.mock.calls).toEqual([[new Error('out of tea')]])
})

test('an operation that throws: 500, the error is printed, and a retry resumes', async () => {
  const service = await startService(database, ({ once, options, ran }) => {
    const operation = once.operation('node-errors', {}, async (run) => {
      await run.phase('counted', () => ran())
      if (run.attempt === 1) outOfTea()
      return { status: 201, headers: [], body: new Uint8Array() }
    })
    return serve(operation, { tenant: options.tenant })
  })
  expect([(await service.send()).status, (await service.send()).status, service.runs()]).toEqual([500, 201, 1])
  expect(printed).toHaveBeenCalledTimes(1)
})
