import { Redis, type RedisOptions } from 'ioredis'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { createOnce, type KeyClaim, reply } from '../../src/index.js'
import { fromIoredis, type RedisConnection, redisStore } from '../../src/stores/redis/index.js'
import { aClaim, aFinish, again, anAnswer, hour, leaseMs, take } from '../../src/testing/store-cases/store-case.js'
import { startRedis } from '../support/redis.js'
import { redisHarness } from '../support/redis-harness.js'

const day = 24 * hour
const codeOf = (asked: Promise<unknown>) =>
  asked.then(
    () => null,
    (error) => error.code,
  )
const server = await startRedis('none')
const admin = new Redis(server.url)
afterAll(async () => {
  admin.disconnect()
  await server.stop()
})

function setup(options: Pick<RedisOptions, 'enableOfflineQueue' | 'username' | 'password'> = {}) {
  const client = new Redis({ port: server.port, ...options, retryStrategy: () => null })
  client.on('error', () => {})
  onTestFinished(() => client.disconnect())
  const prefix = `${crypto.randomUUID()}:`
  const connection = fromIoredis(client)
  const store = redisStore(connection, { prefix })
  /** How long Redis keeps the only key there is. -1: for ever. */
  const ttl = async () => {
    const [key, ...more] = await admin.keys(`${prefix}*`)
    expect(more).toEqual([])
    return admin.pttl(key as string)
  }
  return { client, connection, prefix, store, ttl }
}

describe('what Redis forgets by itself', () => {
  test('a finished key, at the end of its retention', async () => {
    const { store, ttl } = setup()
    await store.keyFinish(aFinish(await take(store, aClaim())))
    const left = await ttl()
    expect(left).toBeGreaterThan(day - hour)
    expect(left).toBeLessThanOrEqual(day)
  })

  test('never a finished key that is kept for ever', async () => {
    const { store, ttl } = setup()
    const retention = { ms: Number.POSITIVE_INFINITY, from: 'creation', floorMs: hour } as const
    await store.keyFinish(aFinish(await take(store, aClaim({ retention })), { retention }))
    expect(await ttl()).toBe(-1)
  })

  test('a key that was begun and left, seven days after its last lease; each claim and heartbeat counts anew', async () => {
    const { store, ttl } = setup()
    const claim = aClaim({ leaseMs: day })
    const { lease } = await take(store, claim)
    const [begun] = [await ttl()]
    expect(begun).toBeGreaterThan(8 * day - hour)
    expect(begun).toBeLessThanOrEqual(8 * day)
    await store.keyHeartbeat({ leases: [{ ...lease, leaseMs: 3 * day }] })
    expect(await ttl()).toBeGreaterThan(10 * day - hour)
    await store.keyRelease({ lease })
    const released = await ttl()
    expect(released).toBeGreaterThan(7 * day - hour)
    expect(released).toBeLessThanOrEqual(7 * day)
    await take(store, again(claim))
    expect(await ttl()).toBeGreaterThan(8 * day - hour)
  })

  test('not before its retention, if that is longer', async () => {
    const { store, ttl } = setup()
    const retention = { ms: 30 * day, from: 'creation', floorMs: hour } as const
    await store.keyRelease({ lease: (await take(store, aClaim({ retention }))).lease })
    expect(await ttl()).toBeGreaterThan(30 * day - hour)
  })

  test('never a parked key, one that waits for a worker, or one whose work must be looked at', async () => {
    const parked = setup()
    const { lease } = await take(parked.store, aClaim())
    await parked.store.keyPark({ lease, answer: anAnswer, reason: 'a test' })
    expect(await parked.ttl()).toBe(-1)

    const queued = setup()
    const claim = aClaim()
    await queued.store.keyEnqueue(claim)
    expect(await queued.ttl()).toBe(-1)
    const worker = await take(queued.store, again(claim, { worker: true, fingerprint: null }))
    expect(await queued.ttl()).toBe(-1)
    await queued.store.keyRelease({ lease: worker.lease })
    expect(await queued.ttl()).toBe(-1)

    const doubtful = setup()
    await take(doubtful.store, aClaim({ afterFailure: 'park' }))
    expect(await doubtful.ttl()).toBe(-1)
  })

  test('a failure that was stored for a holder that is gone, at the end of its retention', async () => {
    const { connection } = setup()
    const { store, advance } = redisHarness(connection)
    const claim = aClaim({ afterFailure: 'store' })
    await take(store, claim)
    await advance(leaseMs + 1)
    expect(await store.keyClaim(again(claim))).toMatchObject({ kind: 'replay', settled: true })
    await advance(day)
    expect(await store.keyRead(claim)).toBeUndefined()
  })
})

/** The same connection, but the reply to the next command is lost after Redis carried it out. */
function losingReplies(connection: RedisConnection) {
  let armed = false
  const losing: RedisConnection = {
    async send(key, command) {
      const reply = await connection.send(key, command)
      if (!armed) return reply
      armed = false
      throw new Error('read ECONNRESET')
    },
  }
  const lost = async (ask: () => Promise<unknown>) => {
    armed = true
    expect(await codeOf(ask())).toBe('store_unavailable')
  }
  return { losing, lost }
}

test('a lost reply is no second run: claim, take-over, finish, release and park know themselves', async () => {
  const { connection, prefix } = setup()
  // Scripts that the server knows already, so that the reply is the script's own.
  const { losing, lost } = losingReplies(connection)
  const harness = redisHarness(losing, { prefix })
  const { store } = harness
  await store.keyRelease({ lease: (await take(store, aClaim())).lease })

  const claim = aClaim()
  await lost(() => store.keyClaim(claim))
  expect((await take(store, claim)).lease.fence).toBe(1)
  await harness.advance(leaseMs + 1)
  await take(store, again(claim))
  await harness.advance(leaseMs + 1)
  const taker = again(claim)
  await lost(() => store.keyClaim(taker))
  const held = await take(store, taker)
  expect(held.lease.fence).toBe(3)
  await lost(() => store.keyFinish(aFinish(held)))
  expect(await store.keyFinish(aFinish(held))).toBe('done')

  const { lease } = await take(store, aClaim())
  await lost(() => store.keyRelease({ lease, reason: 'once' }))
  expect(await store.keyRelease({ lease, reason: 'twice' })).toBe('done')
  const parked = await take(store, aClaim())
  await lost(() => store.keyPark({ lease: parked.lease, answer: anAnswer, reason: 'once' }))
  expect(await store.keyPark({ lease: parked.lease, answer: anAnswer, reason: 'twice' })).toBe('done')
})

test('a server that has forgotten the scripts is sent them again', async () => {
  const { store } = setup()
  const claim = aClaim()
  const held = await take(store, claim)
  await admin.script('FLUSH')
  expect(await store.keyFinish(aFinish(held))).toBe('done')
  await admin.script('FLUSH')
  expect((await store.keyClaim(again(claim))).kind).toBe('replay')
})

test('what a flush made it forget runs again, and the holder of before is told that its key is lost', async () => {
  const { store, prefix } = setup()
  const claim = aClaim()
  const before = await take(store, claim)
  await admin.del(await admin.keys(`${prefix}*`))
  expect(await store.keyHeartbeat({ leases: [{ ...before.lease, leaseMs }] })).toEqual(['lost'])
  const after = await take(store, again(claim))
  expect(await store.keyFinish(aFinish(before))).toBe('lost')
  expect(await store.keyFinish(aFinish(after))).toBe('done')
})

test('two keys that Redis would call the same are an error, and neither runs', async () => {
  const { store, prefix } = setup()
  const claim = aClaim()
  await take(store, claim)
  const [key] = await admin.keys(`${prefix}*`)
  await admin.hset(key as string, 'scope', 'another')
  expect(await codeOf(store.keyClaim(again(claim)))).toBe('store_key_collision')
  expect(await codeOf(store.keyPeek(again(claim)))).toBe('store_key_collision')
})

describe('says in our words what is wrong with Redis', () => {
  const claimThrough = (store: { keyClaim(claim: KeyClaim): Promise<unknown> }) => codeOf(store.keyClaim(aClaim()))

  test('it is not there', async () => {
    const { client, store } = setup({ enableOfflineQueue: false })
    client.disconnect()
    expect(await claimThrough(store)).toBe('store_unavailable')
  })

  test('it is full: nothing is stored, what is known is told', async () => {
    const { connection } = setup()
    const { store, advance } = redisHarness(connection)
    const claim = aClaim()
    await take(store, claim)
    await admin.config('SET', 'maxmemory', '1')
    try {
      expect(await claimThrough(store)).toBe('store_full')
      expect((await store.keyClaim(again(claim))).kind).toBe('in-progress')
    } finally {
      await admin.config('SET', 'maxmemory', '0')
    }
    const before = await store.keyRead(claim)
    await advance(leaseMs + 1)
    await admin.config('SET', 'maxmemory', '1')
    try {
      expect(await codeOf(store.keyClaim(again(claim)))).toBe('store_full')
    } finally {
      await admin.config('SET', 'maxmemory', '0')
    }
    expect(await store.keyRead(claim)).toMatchObject({ fence: 1, owner: before?.owner })
  })

  test('it is a replica', async () => {
    const { store } = setup()
    await admin.replicaof('127.0.0.1', 1)
    try {
      expect(await claimThrough(store)).toBe('store_read_only')
    } finally {
      await admin.replicaof('NO', 'ONE')
    }
  })

  test('it has too few replicas', async () => {
    const { store } = setup()
    await admin.config('SET', 'min-replicas-to-write', '1')
    try {
      expect(await claimThrough(store)).toBe('store_unavailable')
    } finally {
      await admin.config('SET', 'min-replicas-to-write', '0')
    }
  })

  test('it does not let us in', async () => {
    await admin.acl('SETUSER', 'guest', 'on', 'nopass', '~*', '+@all', '-eval', '-evalsha')
    const { store } = setup({ username: 'guest', password: 'any' })
    expect(await claimThrough(store)).toBe('store_forbidden')
  })

  test('it refuses the login, which is told apart from a right that lacks', async () => {
    await admin.acl('SETUSER', 'guarded', 'on', '>right', '~*', '+@all')
    const login = { username: 'guarded', password: 'wrong' }
    const { store } = setup(login)
    await expect(store.keyClaim(aClaim())).rejects.toMatchObject({
      code: 'store_forbidden',
      message: expect.stringMatching(/^Redis refused the login: check user and password/),
    })
  })

  test('somebody else keeps something under the name of a key', async () => {
    const { store, prefix } = setup()
    const claim = aClaim()
    await take(store, claim)
    const [key] = await admin.keys(`${prefix}*`)
    await admin.set(key as string, 'not a hash')
    expect(await codeOf(store.keyClaim(again(claim)))).toBe('store_failed')
  })
})

test('refuses options that cannot work', () => {
  const { connection } = setup()
  expect(() => redisStore(connection, { prefix: '' })).toThrow('prefix is ""')
  expect(() => redisStore(connection, { keepUnfinished: '0s' })).toThrow('keepUnfinished')
})

describe('in an instance', () => {
  const options = { tenant: 't', scope: 'mails', key: 'k', fingerprint: false, afterFailure: 'rerun' } as const

  test('runs work once and replays it', async () => {
    const once = createOnce({ store: setup().store })
    expect((await once.execute(options, () => reply(202, { sent: true }))).kind).toBe('executed')
    expect(await once.execute(options, () => reply(500))).toMatchObject({ kind: 'replayed', answer: { status: 202 } })
  })

  test('has no operations, and says that it cannot share a transaction and may forget', async () => {
    const once = createOnce({ store: setup().store })
    expect(() => once.operation('orders.create', {}, () => reply(201))).toThrow(
      'This store cannot share a transaction with your data, and may forget what was done, so it has no operations',
    )
    await expect(once.execute(options, (run) => run.phase('order', () => null) as never)).rejects.toMatchObject({
      code: 'steps_unsupported',
    })
  })
})
