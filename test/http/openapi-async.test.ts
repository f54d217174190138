// As openapi.test.ts, for operations that are left to workers, and for their status resource.
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { describeIdempotency, describeStatus } from '../../src/http/openapi.js'
import { type Answer, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { expectPublished } from './published.js'
import type { Seen } from './seen.js'
import { gated, type ProfileName, setup } from './setup.js'

const database = useDatabase()

const body = '{"amount":100}'
const answerOf = ({ status, headers, bytes }: Seen): Answer => ({ status, headers, body: Uint8Array.from(bytes) })

/** All that the route and its status resource say, however they are provoked; the operation's own answers aside. */
async function everythingSaid(profile: ProfileName) {
  const { accepting, advance, store, once } = await setup(database, profile, { maxAnswerBytes: 1_000 })
  const { accepting: withoutStore } = await setup(database, profile, { pool: await closedPool() })
  const gate = gated()
  const accept = { required: true, pollAfter: '5s' } as const
  const { send, look, carryOut } = accepting(
    accept,
    async (n, run, input) => {
      const { what } = input as { what?: string }
      if (what === 'slow') return gate.work(n, run, input)
      if (what === 'large') return reply(200, 'x'.repeat(5_000))
      const fails = () => Promise.reject(new Error('connection reset'))
      if (what === 'parked') await run?.call('charge', fails, { whenUnknown: 'park' })
      return reply(201)
    },
    { input: z.looseObject({ what: z.string().optional() }) },
  )
  const outage = withoutStore(accept)

  const accepted = async (what: string) => (await send({ key: what, body: JSON.stringify({ what }) })).header('location')
  const again = (what: string) => send({ key: what, body: JSON.stringify({ what }) })
  const route: Seen[] = []
  const resource: Seen[] = []
  const both = async (what: string, location: string | undefined) => {
    route.push(await again(what))
    resource.push(await look(location))
  }

  route.push(
    await send({ body }),
    await send({ key: '', body }),
    await send({ key: 'a', body, arrives: { failed: 'incomplete' } }),
    await send({ key: 'a', body, arrives: { failed: 'too_large' } }),
    await send({ key: 'a', body: 'a=1', headers: [['content-type', 'application/x-www-form-urlencoded']] }),
    await send({ key: 'a', body: '{"what":7}' }),
    await outage.send({ key: 'a', body }),
  )
  resource.push(await look('/operations/x'), await outage.look('/operations/5f1c0a1e-9d2b-8c3f-a7e4-2b6d8f0c1e3a'))

  const waiting = await accepted('waiting')
  await both('waiting', waiting)
  route.push(await send({ key: 'waiting', body }))
  const slow = await accepted('slow')
  const attempt = carryOut('slow')
  await gate.arrived
  await both('slow', slow)
  gate.open()
  await attempt
  for (const what of ['parked', 'large']) {
    const location = await accepted(what)
    await carryOut(what)
    await both(what, location)
  }
  await advance(25 * 3_600_000)
  resource.push(await look(slow))
  // Nobody came to it in time.
  await store.upkeep?.keysTimeOut({ limit: 1_000 })
  await both('waiting', waiting)
  await once.stop()
  route.push(await again('stopping'))
  return { route: route.map(answerOf), resource: resource.map(answerOf) }
}

async function closedPool() {
  const pool = database.createPool()
  await pool.end()
  return pool
}

describe.each<ProfileName>(['ietf', 'stripe'])('in the %s profile', (profile) => {
  test('everything that is said is published, and nothing else', async () => {
    const { route, resource } = await everythingSaid(profile)
    expectPublished(describeIdempotency({ profile, required: true, respond: 'async', pollAfter: '5s' }).responses, route)
    expectPublished(describeStatus({ profile }).responses, resource)
    expect(route.length + resource.length).toBeGreaterThan(15)
  })
})
