/** What a reply is made of. Texts come as bytes, so that bodies come back as they were. */
export type RedisReply = Uint8Array | string | number | null | readonly RedisReply[]

/**
 * The subset of Redis that we need. `fromIoredis` and `fromNodeRedis` make one of your own client; a standalone server, Sentinel and
 * Cluster look the same from here.
 */
export interface RedisConnection {
  /** Sends one command to the server that `key` lives on. */
  send(key: string, command: readonly (string | Uint8Array)[]): Promise<RedisReply>
}

/** Clients take no bytes but those in a Buffer. */
export function asBuffers(command: readonly (string | Uint8Array)[]): (string | Buffer)[] {
  return command.map((part) => (typeof part === 'string' ? part : Buffer.from(part.buffer, part.byteOffset, part.length)))
}
