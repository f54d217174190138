import { asBuffers, type RedisConnection, type RedisReply } from './connection.js'

/** The subset of ioredis's `Redis` and `Cluster` that we need. */
export interface IoredisClient {
  callBuffer(command: string, args: (string | Buffer | number)[]): Promise<unknown>
}

/** Your own `Redis` (also one that asks Sentinel) or `Cluster` of ioredis. */
export function fromIoredis(client: IoredisClient): RedisConnection {
  return {
    // ioredis finds the key in the command itself.
    async send(_, command) {
      const [name, ...args] = asBuffers(command)
      return (await client.callBuffer(name as string, args)) as RedisReply
    },
  }
}
