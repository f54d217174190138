import assert from 'node:assert/strict'
import { type AdapterCase, type Bench, text } from './adapter-case.js'
import type { Answered, Sent } from './client.js'

async function isReplayed(bench: Bench, first: Answered, request: Partial<Sent> = {}): Promise<void> {
  const again = await bench.send(request)
  assert.equal(text(again.body), text(first.body))
  assert.deepEqual(again.lines('idempotent-replayed'), ['true'])
  assert.equal(bench.runs(), 1)
}

async function isRefused(bench: Bench, status: number, request: Partial<Sent>): Promise<void> {
  const runs = bench.runs()
  const answered = await bench.send(request)
  assert.equal(answered.status, status)
  assert.deepEqual(answered.lines('idempotent-replayed'), [])
  assert.deepEqual(answered.lines('content-type'), ['application/problem+json'])
  const problem = JSON.parse(text(answered.body))
  assert.equal(problem.status, status)
  assert.match(problem.type, new RegExp(`[:/]${problem.code}$`))
  assert.ok(problem.title && problem.detail)
  assert.match(answered.lines('link')[0] ?? '', /rel="describedby"/)
  assert.equal(bench.runs(), runs)
}

/** Which requests are the same, and which are not protected. */
export const requestCases: AdapterCase[] = [
  {
    name: 'K1, K2: runs once, and replays the answer',
    async run(bench) {
      const first = await bench.send()
      assert.equal(first.status, 201)
      assert.deepEqual(first.lines('idempotent-replayed'), [])
      await isReplayed(bench, first)
      await isReplayed(bench, first)
    },
  },
  {
    name: 'K3: takes an unquoted key for the same as the quoted one',
    run: async (bench) => isReplayed(bench, await bench.send({ key: '"8e03978e-40d5"' }), { key: '8e03978e-40d5' }),
  },
  {
    name: 'K6: runs a request without a key each time, and marks nothing',
    async run(bench) {
      for (const run of [1, 2]) {
        const answered = await bench.send({ key: null })
        assert.deepEqual(JSON.parse(text(answered.body)), { run })
        assert.deepEqual(answered.lines('idempotent-replayed'), [])
      }
    },
  },
  {
    name: 'K7, P1: refuses an empty key, a long one and two lines, with a problem that says what to do',
    async run(bench) {
      await isRefused(bench, 400, { key: '""' })
      await isRefused(bench, 400, { key: `"${'k'.repeat(256)}"` })
      await isRefused(bench, 400, { key: null, headers: { 'content-type': 'application/json', 'idempotency-key': ['"a"', '"b"'] } })
      assert.equal(bench.runs(), 0)
    },
  },
  {
    name: 'F1, F2: refuses another body under a used key, and still replays the first one',
    async run(bench) {
      const first = await bench.send()
      await isRefused(bench, 422, { body: '{"item":"coffee"}' })
      await isReplayed(bench, first)
    },
  },
  {
    name: 'F4: another path or method is another request',
    async run(bench) {
      await bench.send()
      assert.deepEqual(JSON.parse(text((await bench.send({ path: '/other' })).body)), { run: 2 })
      assert.deepEqual(JSON.parse(text((await bench.send({ method: 'PATCH' })).body)), { run: 3 })
    },
  },
  {
    name: 'F5: sees another query and another media type, but not how that one is written',
    async run(bench) {
      const first = await bench.send({ path: '/work?dry_run=1' })
      await isRefused(bench, 422, { path: '/work?dry_run=2' })
      await isRefused(bench, 422, { path: '/work?dry_run=1', headers: { 'content-type': 'text/plain' } })
      await isReplayed(bench, first, { path: '/work?dry_run=1', headers: { 'content-type': 'Application/JSON; charset=utf-8' } })
    },
  },
  {
    name: 'F6: does not see member order and white space',
    async run(bench) {
      const first = await bench.send({ body: '{"a":1,"b":[1.0,1e2]}' })
      await isReplayed(bench, first, { body: '{ "b" : [ 1, 100 ],\n"a": 1 }' })
    },
  },
  {
    name: 'F7: sees integers past 2^53, duplicate members, and no body',
    async run(bench) {
      const first = await bench.send({ body: '{"id":9007199254740993}' })
      await isRefused(bench, 422, { body: '{"id":9007199254740992}' })
      await isRefused(bench, 422, { body: '{"id":1,"id":9007199254740993}' })
      await isRefused(bench, 422, { body: null, headers: {} })
      await isReplayed(bench, first, { body: '{"id":9007199254740993}' })
    },
  },
  {
    name: 'F8: does not see tracing, user agent and the like',
    async run(bench) {
      const first = await bench.send()
      const headers = { 'content-type': 'application/json', traceparent: '00-1-2-01', 'user-agent': 'other', accept: 'text/html' }
      await isReplayed(bench, first, { headers })
    },
  },
  {
    name: 'T1: keeps two tenants apart',
    async run(bench) {
      await bench.send()
      const other = await bench.send({ tenant: `other-${bench.tenant}` })
      assert.deepEqual(JSON.parse(text(other.body)), { run: 2 })
    },
  },
  {
    name: 'G1: leaves GET, PUT and DELETE alone, with a key or without',
    async run(bench) {
      let run = 0
      for (const key of ['"key-1"', '"key-1"', null]) {
        for (const method of ['GET', 'PUT', 'DELETE']) {
          run += 1
          const answered = await bench.send({ method, key, ...(method === 'GET' ? { body: null, headers: {} } : {}) })
          assert.deepEqual(JSON.parse(text(answered.body)), { run })
          assert.deepEqual(answered.lines('idempotent-replayed'), [])
        }
      }
    },
  },
]
