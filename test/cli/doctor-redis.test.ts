import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { redisChecks } from '../../src/cli/checks/redis.js'
import { connectRedis } from '../../src/cli/connect-redis.js'
import { useDatabase } from '../support/postgres/database.js'
import { startRedis } from '../support/redis.js'
import { waitUntil } from '../support/wait-until.js'
import { commandLine } from './command-line.js'

const database = useDatabase()
const server = await startRedis('always')
const admin = new Redis(server.url)
afterAll(async () => {
  admin.disconnect()
  await server.stop()
})

interface Check {
  name: string
  level: string
  todo: string | null
}

async function examined(url = server.url) {
  const { data } = await commandLine(database.url)('doctor', '--json', '--redis', url)
  const checks: Check[] = data.checks.filter(({ name }: Check) => name.startsWith('redis'))
  return Object.fromEntries(checks.map(({ name, level }) => [name, level]))
}

test('passes a Redis that keeps what it is told', async () => {
  expect(await examined()).toEqual({ redis: 'ok', 'redis eviction': 'ok', 'redis log': 'ok', 'redis replicas': 'ok' })
})

test('says nothing of Redis unless asked', async () => {
  const { data } = await commandLine(database.url)('doctor', '--json')
  expect(data.checks.filter(({ name }: Check) => name.startsWith('redis'))).toEqual([])
})

test('warns of a policy that throws keys away', async () => {
  await admin.config('SET', 'maxmemory-policy', 'allkeys-lru')
  onTestFinished(async () => void (await admin.config('SET', 'maxmemory-policy', 'noeviction')))
  expect(await examined()).toMatchObject({ 'redis eviction': 'warn', 'redis log': 'ok' })
})

test('warns of a Redis without a log, of a replica, and of replicas that nobody waits for', async () => {
  const replica = await startRedis('none')
  const second = new Redis(replica.url)
  onTestFinished(async () => {
    second.disconnect()
    await replica.stop()
  })
  expect(await examined(replica.url)).toMatchObject({ redis: 'ok', 'redis log': 'warn' })
  await second.replicaof('127.0.0.1', server.port)
  await waitUntil('it is a replica', async () => (await admin.info('replication')).includes('connected_slaves:1'))
  expect(await examined(replica.url)).toMatchObject({ redis: 'warn' })
  expect(await examined()).toMatchObject({ 'redis replicas': 'warn' })
  await admin.config('SET', 'min-replicas-to-write', '1')
  onTestFinished(async () => void (await admin.config('SET', 'min-replicas-to-write', '0')))
  expect(await examined()).toMatchObject({ 'redis replicas': 'ok' })
})

test('warns of a Redis that is not there', async () => {
  expect(await examined('redis://127.0.0.1:1')).toEqual({ redis: 'warn' })
})

/** A project that has no other client than this one. */
async function projectWith(module: string | undefined): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-project-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'package.json'), '{}')
  if (module) {
    await mkdir(join(folder, 'node_modules', module, '..'), { recursive: true })
    symlinkSync(join(process.cwd(), 'node_modules', module), join(folder, 'node_modules', module))
  }
  return join(folder, 'package.json')
}

test.each(['ioredis', '@redis/client'])("connects through the project's own %s", async (module) => {
  const place = await projectWith(module)
  const checks = await redisChecks({ connectRedis: (url) => connectRedis(url, 'the project', [place]) }, server.url)
  expect(checks.map(({ level }) => level)).toEqual(['ok', 'ok', 'ok', 'ok'])
})

test('says which client to install where there is none', async () => {
  const place = await projectWith(undefined)
  await expect(redisChecks({ connectRedis: (url) => connectRedis(url, 'the project', [place]) }, server.url)).rejects.toThrow(
    'There is no Redis client in the project',
  )
})
