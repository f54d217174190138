import { startRedis as startServer } from '../../test/support/redis.js'
import { type CpuMeter, treeCpu } from './cpu.js'

export interface Redis {
  readonly url: string
  readonly port: number
  readonly cpu: CpuMeter
  /** Forgets all keys. */
  reset(): Promise<void>
  stop(): Promise<void>
}

/** A Redis server of Debian's that cannot outlive this process. Undefined where it cannot be had. */
export async function startRedis(kept: 'none' | 'always'): Promise<Redis | undefined> {
  const server = await startServer(kept).catch(() => undefined)
  if (!server) return undefined
  return { ...server, cpu: treeCpu(server.pid) }
}
