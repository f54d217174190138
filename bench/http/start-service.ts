import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type CpuMeter, treeCpu } from '../harness/cpu.js'
import type { Framework, Way } from '../sections/titles.js'

export interface ServiceSettings {
  readonly framework: Framework
  readonly way: Way
  readonly databaseUrl: string
  readonly redisUrl?: string | undefined
}

export interface Service {
  readonly url: string
  readonly cpu: CpuMeter
  stop(): Promise<void>
}

export async function startService(settings: ServiceSettings): Promise<Service> {
  const file = fileURLToPath(new URL('./service.ts', import.meta.url))
  const child = spawn(process.execPath, ['--import', 'tsx', file, JSON.stringify(settings)], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const gone = once(child, 'exit')
  const ready = once(createInterface(child.stdout), 'line')
  const line = await Promise.race([ready, gone.then(() => undefined)])
  if (!line) throw new Error(`the service with ${settings.framework}, ${settings.way}, did not start`)
  return {
    url: `http://127.0.0.1:${line[0]}/orders`,
    cpu: treeCpu(child.pid as number),
    async stop() {
      child.stdin.end()
      await gone
    },
  }
}
