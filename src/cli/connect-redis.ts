import { join } from 'node:path'
import { load } from './connect.js'
import { CommandError, exitCodes } from './exit-codes.js'

/** A Redis server to examine. */
export interface RedisSession {
  /** The output of INFO. */
  info(): Promise<string>
  close(): void
}

type Ioredis = new (
  url: string,
  options: object,
) => {
  on(event: 'error', listener: () => void): unknown
  connect(): Promise<unknown>
  info(): Promise<string>
  disconnect(): void
}

interface NodeRedis {
  createClient(options: object): {
    on(event: 'error', listener: () => void): unknown
    connect(): Promise<unknown>
    sendCommand(command: string[]): Promise<string>
    destroy?(): void
    disconnect(): unknown
  }
}

/** A silent server must not hang a script. */
const connectMs = 10_000

/** Connects through the client in the user's project, as for Postgres. */
export async function connectRedis(
  url: string,
  directory: string,
  /** For tests. */
  places: readonly string[] = [join(directory, 'package.json'), import.meta.url],
): Promise<RedisSession> {
  const ioredis = await load<Ioredis>('ioredis', places)
  if (ioredis) return throughIoredis(ioredis, url)
  const nodeRedis = (await load<NodeRedis>('redis', places)) ?? (await load<NodeRedis>('@redis/client', places))
  if (nodeRedis) return throughNodeRedis(nodeRedis, url)
  throw new CommandError(
    exitCodes.unexpected,
    `There is no Redis client in ${directory}: run oncekey in the folder of your project, or install one there (npm install ioredis).`,
  )
}

async function throughIoredis(Redis: Ioredis, url: string): Promise<RedisSession> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null, connectTimeout: connectMs, commandTimeout: connectMs })
  client.on('error', () => {})
  await client.connect()
  return { info: () => client.info(), close: () => client.disconnect() }
}

async function throughNodeRedis({ createClient }: NodeRedis, url: string): Promise<RedisSession> {
  const client = createClient({ url, socket: { reconnectStrategy: false, connectTimeout: connectMs } })
  client.on('error', () => {})
  await client.connect()
  return {
    info: () => client.sendCommand(['INFO']),
    close: () => void (client.destroy ? client.destroy() : client.disconnect()),
  }
}
