import { randomUUID } from 'node:crypto'
import { type Answer, createFingerprinter, type Lease } from 'oncekey'
import type { ServiceSettings } from '../start-service.js'
import { openStore } from '../store.js'

/** What a floor knows of a request. */
export interface Keyed {
  readonly key: string
  readonly path: string
  readonly mediaType: string
  readonly body: Uint8Array
}

/** An answer that is replayed, or the lease under which the handler runs. */
export type Claimed = { readonly answer: Answer; readonly lease?: never } | { readonly lease: Lease; readonly answer?: never }

export type Floor = ReturnType<typeof floorOf>

const retention = { ms: 86_400_000, floorMs: 0, from: 'creation' } as const

/**
 * The least that a layer must do: take the fingerprint, claim the key, store the answer. There is no engine: no heartbeat, retry, time limit, event
 * or shutdown, and no contract of HTTP. What oncekey costs above the floor of the same framework is what these cost.
 */
export function floorOf(settings: ServiceSettings) {
  const store = openStore(settings)
  const fingerprint = createFingerprinter()
  return {
    async claim({ key, path, mediaType, body }: Keyed): Promise<Claimed> {
      const verdict = await store.keyClaim({
        tenant: 'single',
        scope: `POST ${path}`,
        key,
        owner: randomUUID(),
        fingerprint: fingerprint({ method: 'POST', path, mediaType, body }),
        leaseMs: 60_000,
        retention,
        afterFailure: 'rerun',
        request: null,
        worker: false,
      })
      if (verdict.kind === 'execute' || verdict.kind === 'replay') return verdict
      // Express and Koa read one name, Fastify the other.
      throw Object.assign(new Error(verdict.kind), { status: 409, statusCode: 409 })
    },

    async finish(lease: Lease, answer: Answer): Promise<void> {
      const result = await store.keyFinish({ lease, state: 'complete', answer, retention })
      if (result !== 'done') throw new Error(`the answer was not stored: ${result}`)
    },
  }
}

/** What the headers of a framework's response are to the store. */
export function headerPairs(headers: Readonly<Record<string, unknown>>): [string, string][] {
  return Object.entries(headers).map(([name, value]) => [name, String(value)])
}

export const replayedHeader = ['idempotent-replayed', 'true'] as const
