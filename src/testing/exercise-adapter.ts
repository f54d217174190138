import type { HeaderPair } from '../core/answer.js'
import type { Store } from '../core/store.js'
import type { Once } from '../create-once.js'
import type { AsyncServeOptions, IdempotencyOptions } from '../http/options.js'
import type { Servable } from '../http/serve.js'
import type { Message, Receiver, WebhookOptions } from '../http/webhook.js'
import type { AdapterCase } from './adapter-cases/adapter-case.js'
import { asyncCases } from './adapter-cases/async.js'
import { openBench } from './adapter-cases/bench.js'
import { bodyCases } from './adapter-cases/bodies.js'
import { concurrencyCases } from './adapter-cases/concurrency.js'
import { dialectCases } from './adapter-cases/dialects.js'
import { failureCases } from './adapter-cases/failures.js'
import { lostClientCases } from './adapter-cases/lost-clients.js'
import { operationCases } from './adapter-cases/operations.js'
import { replayCases } from './adapter-cases/replays.js'
import { requestCases } from './adapter-cases/requests.js'
import { webhookCases } from './adapter-cases/webhooks.js'

/** What a handler must answer, in its framework's way. */
export interface HandlerAnswer {
  readonly status: number
  /** Names may repeat. */
  readonly headers: readonly HeaderPair[]
  /** A value: sent as JSON by your framework. Bytes: unchanged. Pieces: as a stream. Nothing: no body. */
  readonly body:
    | { readonly json: unknown }
    | { readonly bytes: Uint8Array }
    | { readonly pieces: AsyncIterable<Uint8Array> }
    | { readonly none: true }
}

/** The application that the suite tests. */
export interface AdapterApp<Tx = unknown> {
  readonly once: Once<Tx>
  /** For `idempotency()`, in front of every method on every path but `/operation`, `/async` and `/webhook`; add a `tenant` that reads the `x-tenant` header. */
  readonly options: Pick<IdempotencyOptions<unknown>, 'afterFailure' | 'failOpen' | 'maxBodyBytes' | 'profile' | 'wait' | 'whenInProgress'>
  /** Pass it what your handler received, and answer what it returns. Your framework handles its errors. */
  handle(request: { readonly method: string; readonly path: string; readonly body: Uint8Array }): Promise<HandlerAnswer>
  /** For `serve()`, at `POST /operation`; absent if the store has no operations. */
  readonly operation?: Servable
  /** More options for a second `serve()` of the same operation, at `POST /async`. Serve `status()` at `GET /async/:id`, with the same `tenant`. */
  readonly acceptance: Pick<AsyncServeOptions<unknown>, 'respond' | 'location' | 'pollAfter'>
  /** For `webhook()`, at `POST /webhook`; absent if the store has no operations. */
  readonly consumer?: Receiver<Message>
  readonly signatures: Pick<WebhookOptions<unknown>, 'verify'>
}

export interface AdapterHarness<Tx> {
  readonly store: Store<Tx>
  /** Listens on a real socket. */
  start(app: AdapterApp<Tx>): Promise<{ readonly url: string; close(): Promise<unknown> }>
}

export interface ExerciseAdapterOptions<Tx> {
  /** The test function of your runner: `test` or `it` of vitest, jest or node:test. */
  test: (name: string, run: () => Promise<void>) => unknown
  /** Called once for each test. The store may be shared: every test uses its own tenant. */
  setup: () => Promise<AdapterHarness<Tx>> | AdapterHarness<Tx>
  /** False omits the cases of `serve()`, `status()` and `webhook()`, for a store without operations. Default true. */
  operations?: boolean
}

/**
 * The HTTP contract as a test suite, over real sockets. Every adapter must pass it.
 *
 * @example exerciseAdapter({ test, setup: () => ({ store, start: (app) => listen(myFramework(app)) }) })
 */
export function exerciseAdapter<Tx>({ test, setup, operations = true }: ExerciseAdapterOptions<Tx>): void {
  const cases: AdapterCase[] = [
    ...requestCases,
    ...bodyCases,
    ...replayCases,
    ...failureCases,
    ...concurrencyCases,
    ...lostClientCases,
    ...dialectCases,
    ...(operations ? [...operationCases, ...asyncCases, ...webhookCases] : []),
  ]
  for (const { name, run, ...needs } of cases) {
    test(name, async () => {
      const bench = await openBench(await setup(), needs)
      try {
        await run(bench)
      } finally {
        await bench.close()
      }
    })
  }
}
