import { afterAll, onTestFinished } from 'vitest'
import { type Child, startChild } from '../support/child.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type ClientParts, post } from './client.js'
import type { Seen } from './seen.js'
import type { ServerSettings } from './server.js'

/** An advisory lock of the file's database: its tests come one after the other. */
export const gate = 1

/** The service in a process of its own. */
export interface ServerProcess extends Pick<Child, 'pid' | 'signal'> {
  readonly port: number
  send(parts: ClientParts): Promise<Seen>
  /** How many different requests of this test it has told to wait. */
  met(): Promise<number>
  /** Resolves when that many requests of this test with POST have begun to arrive. */
  begun(count: number): Promise<unknown>
  /** Resolves when the server knows of no client but the one that asks. */
  aloneWithUs(): Promise<unknown>
}

export interface StartSettings extends Omit<ServerSettings, 'url' | 'gate'> {
  /** The name of the crash point at which this process dies by SIGKILL. */
  dieAt?: string
}

interface Running {
  readonly settings: string
  readonly child: Child
  readonly port: number
  kill(): void
}

/**
 * Starts servers for the tests of a file. One that its test has neither killed nor frozen serves the next test that asks for the same
 * settings: starting a process takes longer than most tests.
 */
export function processes({ url }: TestDatabase): (settings?: StartSettings) => Promise<ServerProcess> {
  const idle: Running[] = []
  afterAll(() => {
    for (const { kill } of idle) kill()
  })

  async function take(settings: object): Promise<Running> {
    const wanted = JSON.stringify(settings)
    const index = idle.findIndex((running) => running.settings === wanted)
    if (index !== -1) return idle.splice(index, 1)[0] as Running
    let kill = () => {}
    const child = startChild('http/server.ts', { url, gate, ...settings } satisfies ServerSettings, (atTheEnd) => {
      kill = atTheEnd
    })
    return { settings: wanted, child, port: await child.message<number>(), kill }
  }

  return async ({ dieAt, ...settings } = {}) => {
    const running = await take(settings)
    const { child, port } = running
    let isDoomed = dieAt !== undefined
    onTestFinished(({ task }) => {
      if (isDoomed || task.result?.state === 'fail') running.kill()
      else idle.push(running)
    })
    const send = (parts: ClientParts) => post(port, parts)
    const ask = async (path: string) => Number((await send({ method: 'GET', path })).text)
    const before = { met: await ask('/met'), begun: await ask('/begun') }
    if (dieAt !== undefined) await send({ method: 'PUT', path: '/die-at', body: dieAt })
    return {
      pid: child.pid,
      signal(name) {
        isDoomed = true
        child.signal(name)
      },
      port,
      send,
      met: async () => (await ask('/met')) - before.met,
      begun: (count) => waitUntil(`${count} requests have begun`, async () => (await ask('/begun')) - before.begun === count),
      aloneWithUs: () => waitUntil('the server has noticed that its client is gone', async () => (await ask('/connections')) === 1),
    }
  }
}
