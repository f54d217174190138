import { storeTimeout } from '../../../core/errors.js'
import { isStatementError } from '../driver-errors.js'
import type { PgClient, PgPool } from './from-pg.js'

/** Without a listener, a connection that breaks would end the process. What was under way on it is rejected anyway. */
const ignore = () => {}

/**
 * Runs a statement on a connection of the pool, and ends after `timeoutMs` whatever it waits for. A connection that is still busy then is destroyed;
 * one that the pool hands out later goes back at once, so that its place is not kept by a caller that has gone.
 */
export function runOn<Client extends PgClient, T>(
  pool: PgPool<Client>,
  timeoutMs: number | undefined,
  statement: (client: Client) => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let client: Client | undefined
    let isOver = false
    const end = (destroy: boolean) => {
      isOver = true
      clearTimeout(timer)
      if (!client) return
      client.removeListener('error', ignore)
      client.release(destroy)
    }
    const giveUp = () => {
      end(true)
      reject(storeTimeout({ neverSent: client === undefined }))
    }
    const timer = timeoutMs === undefined ? undefined : setTimeout(giveUp, timeoutMs)
    pool.connect().then(
      (connected) => {
        if (isOver) return connected.release()
        client = connected
        client.on('error', ignore)
        statement(client).then(
          (result) => {
            if (isOver) return
            end(false)
            resolve(result)
          },
          (error: unknown) => {
            if (isOver) return
            end(!isStatementError(error))
            reject(error)
          },
        )
      },
      (error: unknown) => {
        if (isOver) return
        end(false)
        reject(neverSent(error))
      },
    )
  })
}

/** Without a connection nothing was sent. */
function neverSent(error: unknown): unknown {
  if (error instanceof Error) Object.defineProperty(error, 'neverSent', { value: true, configurable: true })
  return error
}

/** A connection for several statements. Waiting for it ends after `timeoutMs`. */
export async function lend<Client extends PgClient>(
  pool: PgPool<Client>,
  timeoutMs: number | undefined,
): Promise<{ readonly client: Client; readonly lent: Lent }> {
  return new Promise((resolve, reject) => {
    let isOver = false
    const giveUp = () => {
      isOver = true
      reject(storeTimeout({ neverSent: true }))
    }
    const timer = timeoutMs === undefined ? undefined : setTimeout(giveUp, timeoutMs)
    pool.connect().then(
      (client) => {
        clearTimeout(timer)
        if (isOver) client.release()
        else resolve({ client, lent: new Lent(client) })
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(neverSent(error))
      },
    )
  })
}

/** A connection that a transaction has, until it goes back to the pool or is destroyed. */
export class Lent {
  readonly #client: PgClient
  /** Rejects each pending `within`. One shared promise to race with would retain every result until the end. */
  readonly #waiting = new Set<(error: unknown) => void>()
  #isBack = false
  #isBroken = false
  readonly #onBroken = () => {
    this.#isBroken = true
  }

  constructor(client: PgClient) {
    this.#client = client
    client.on('error', this.#onBroken)
  }

  /** True once it was destroyed. */
  get isLost(): boolean {
    return this.#isBack
  }

  /** Waits for work on the connection. After `timeoutMs` it destroys the connection and rejects all pending work. */
  within<T>(work: Promise<T>, timeoutMs: number | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = timeoutMs === undefined ? undefined : setTimeout(() => this.lose(), timeoutMs)
      const end = () => {
        clearTimeout(timer)
        this.#waiting.delete(reject)
      }
      this.#waiting.add(reject)
      work.finally(end).then(resolve, reject)
    })
  }

  lose(): void {
    this.giveBack({ destroy: true })
    for (const reject of this.#waiting) reject(storeTimeout())
  }

  giveBack({ destroy = false }: { readonly destroy?: boolean } = {}): void {
    if (this.#isBack) return
    this.#isBack = true
    this.#client.removeListener('error', this.#onBroken)
    this.#client.release(destroy || this.#isBroken)
  }
}
