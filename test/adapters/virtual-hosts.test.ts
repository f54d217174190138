// One service under several names. The host is neither in the scope nor in the fingerprint of a request: where names mean different
// customers or different data, it belongs into the tenant (docs/guide/http.md).
import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { idempotency } from '../../src/adapters/node.js'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay, startService } from './node-service.js'

const database = useDatabase()

type Tenant = 'single' | ((request: IncomingMessage) => string)

async function setup(tenantOf: (tenant: string) => Tenant) {
  const service = await startService(database, ({ once, options, ran }) =>
    idempotency(once, { ...options, tenant: tenantOf(options.tenant()) })((_request, response) => void response.end(`run ${ran()}`)),
  )
  const key = `"${service.tenant}"`
  const sendTo = async (host: string) => {
    const answered = await service.send({ key, headers: { 'content-type': 'application/json', host } })
    return [answered.body.toString(), isReplay(answered)]
  }
  return { sendTo, runs: service.runs }
}

test("with tenant: 'single' a retry by another name of the service is a retry", async () => {
  const { sendTo, runs } = await setup(() => 'single')
  expect(await sendTo('api.example.com')).toEqual(['run 1', false])
  expect(await sendTo('api-internal.example.com:8443')).toEqual(['run 1', true])
  expect(runs()).toBe(1)
})

test('with the host in the tenant, keys of two virtual hosts never meet', async () => {
  const { sendTo, runs } = await setup(
    (user) =>
      ({ headers }) =>
        `${headers.host} ${user}`,
  )
  expect(await sendTo('shop-a.example.com')).toEqual(['run 1', false])
  expect(await sendTo('shop-b.example.com')).toEqual(['run 2', false])
  expect([await sendTo('shop-a.example.com'), await sendTo('shop-b.example.com'), runs()]).toEqual([['run 1', true], ['run 2', true], 2])
})
