/** What a reply is made of. Texts come as bytes, so that bodies are unchanged. */
export type RedisReply = Uint8Array | string | number | null | readonly RedisReply[]

/**
 * The subset of Redis that we need. `fromIoredis` and `fromNodeRedis` make one of your own client, for a standalone server, Sentinel or
 * Cluster.
 */
export interface RedisConnection {
  /** Sends one command to the server that `key` lives on. */
  send(key: string, command: readonly (string | Uint8Array)[]): Promise<RedisReply>
}

/** Clients accept bytes only in a Buffer. */
export function asBuffers(command: readonly (string | Uint8Array)[]): (string | Buffer)[] {
  return command.map((part) => (typeof part === 'string' ? part : Buffer.from(part.buffer, part.byteOffset, part.length)))
}
