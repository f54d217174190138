import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { debianProgram } from './debian-program.js'
import { freePort, startProgram } from './guarded-program.js'
import { isAnswered, redisPackages } from './redis.js'
import { waitUntil } from './wait-until.js'

export interface RedisGroup {
  readonly nodes: readonly { readonly host: string; readonly port: number }[]
  stop(): Promise<void>
}

const slots = 16_384

/** Three real servers that share the slots among them. */
export async function startRedisCluster(): Promise<RedisGroup> {
  const group = await startServers(3, ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'])
  const admins = group.nodes.map((node) => new Redis({ ...node }))
  await Promise.all(
    admins.map(async (admin, index) => {
      const [from, to] = [index, index + 1].map((third) => Math.floor((third * slots) / 3)) as [number, number]
      await admin.call('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to - 1))
      await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1))
    }),
  )
  for (const { host, port } of group.nodes) await admins[0]?.call('CLUSTER', 'MEET', host, String(port))
  for (const admin of admins) {
    await waitUntil('the cluster is whole', async () => {
      const info = String(await admin.call('CLUSTER', 'INFO'))
      return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:3')
    })
    admin.disconnect()
  }
  return group
}

/** A server, and a Sentinel that knows it as `primary`. The nodes are the Sentinels. */
export async function startRedisSentinel(): Promise<RedisGroup> {
  const server = await startServers(1)
  const [primary] = server.nodes as [RedisGroup['nodes'][number]]
  const sentinel = await startServers(1, ['--sentinel'])
  const [admin] = sentinel.nodes.map((node) => new Redis({ ...node }))
  await admin?.call('SENTINEL', 'MONITOR', 'primary', primary.host, String(primary.port), '1')
  admin?.disconnect()
  return {
    nodes: sentinel.nodes,
    async stop() {
      await Promise.all([sentinel.stop(), server.stop()])
    },
  }
}

async function startServers(count: number, more: readonly string[] = []): Promise<RedisGroup> {
  const program = await debianProgram('redis-server', redisPackages)
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-redis-'))
  const host = '127.0.0.1'
  const started = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const port = await freePort()
      // Sentinel and Cluster keep what they know in files of their own.
      const config = join(folder, `${index}.conf`)
      writeFileSync(config, '')
      const own = ['--port', String(port), '--bind', host, '--dir', folder, '--cluster-config-file', `nodes-${index}.conf`]
      return { port, program: startProgram(program, [config, ...own, ...more]) }
    }),
  )
  for (const { port, program } of started) {
    await waitUntil('Redis answers', () => {
      if (!program.isRunning()) throw new Error(`redis-server did not start: ${program.output()}`)
      return isAnswered(port, 'PING')
    })
  }
  return {
    nodes: started.map(({ port }) => ({ host, port })),
    async stop() {
      await Promise.all(started.map(({ program }) => program.kill()))
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
