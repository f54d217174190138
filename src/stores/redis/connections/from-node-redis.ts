import { asBuffers, type RedisConnection, type RedisReply } from './connection.js'

/** The subset of node-redis's clients that we need. `sendCommand` differs by the kind of client, detected at run time. */
export interface NodeRedisClient {
  // biome-ignore lint/suspicious/noExplicitAny: three kinds of client have three signatures, and no type has room for all of them.
  sendCommand(...args: any[]): Promise<unknown>
}

/** Replies in bytes: the first option is for release 4, the second for 5 and 6, by RESP type number. */
const inBytes = { returnBuffers: true, typeMapping: { 36: Buffer } }

/** Your own client of `redis` or `@redis/client`: what createClient, createClientPool, createCluster or createSentinel returned. */
export function fromNodeRedis(client: NodeRedisClient): RedisConnection {
  const send = senderOf(client)
  return { send: async (key, command) => (await send(key, asBuffers(command))) as RedisReply }
}

function senderOf(client: NodeRedisClient): (key: string, command: (string | Buffer)[]) => Promise<unknown> {
  // Never a replica, which may lag behind.
  if ('nodeByAddress' in client) return (key, command) => client.sendCommand(key, false, command, inBytes)
  if ('getMasterNode' in client) return (_, command) => client.sendCommand(false, command, inBytes)
  return (_, command) => client.sendCommand(command, inBytes)
}
