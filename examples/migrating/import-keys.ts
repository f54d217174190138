// Puts what the old table knows into oncekey, when the last process with the old code is gone. What is there stays. Run it again only before
// the first parked key is resolved.
import { isOncekeyError, type Once, reply } from 'oncekey'
import type { Connection } from 'oncekey/postgres'

export interface ImportOptions {
  /** How long the old system remembered a key, in milliseconds. What is older and finished is left out. */
  retentionMs: number
  /** The scope that a request of before has now: the operation's name, or method and path. */
  scopeOf(request: { method: string; path: string }): string
}

interface OldRow {
  readonly tenant: string
  readonly key: string
  readonly method: string
  readonly path: string
  readonly status: number | null
  readonly body: unknown
  readonly recovery_point: string
  readonly left_ms: number
}

export async function importKeys<Tx>(once: Once<Tx>, database: Connection<Tx>, { retentionMs, scopeOf }: ImportOptions) {
  const rows = (await database.query(
    `select user_id::text as tenant, idempotency_key as key, request_method as method, request_path as path, response_code as status,
       response_body as body, recovery_point, extract(epoch from created_at - now())::float8 * 1000 + $1::float8 as left_ms
     from idempotency_keys
     where recovery_point <> 'oncekey' and (response_code is null or created_at > now() - $1::float8 * interval '1 millisecond')`,
    [retentionMs],
  )) as unknown as OldRow[]
  const counts = { finished: 0, parked: 0, refused: 0 }
  for (const row of rows) {
    try {
      counts[await importRow(row)] += 1
    } catch (error) {
      // Too long, for example. A request with such a key is refused too, and runs nothing.
      if (!isOncekeyError(error, 'key_invalid')) throw error
      counts.refused += 1
    }
  }
  return counts

  async function importRow({ tenant, key, status, body, recovery_point, left_ms, ...request }: OldRow): Promise<'finished' | 'parked'> {
    const ref = { tenant, scope: scopeOf(request), key: keyOf(key) }
    if (status === null) {
      await park(once, ref, recovery_point)
      return 'parked'
    }
    // One commit: no crash can leave a key behind that is neither known nor finished. No request is compared: the old table has none.
    const claim = { ...ref, retention: Math.max(1, left_ms) }
    const answer = body === null ? reply(status) : reply(status, body)
    const { kind } = await database.transaction((tx) => once.within(tx, claim, () => answer))
    if (kind !== 'executed' && kind !== 'replayed') throw new Error(`${key} of ${tenant} is ${kind} in oncekey: look at it first`)
    return 'finished'
  }
}

/** The old code stored the header as it came. Quotes, escapes and parameters behind the quotes are no part of the key, as the server reads it. */
function keyOf(header: string): string {
  const quoted = /^"((?:[^"\\]|\\.)*)"(?:;.*)?$/.exec(header)?.[1]
  return quoted === undefined ? header : quoted.replace(/\\(.)/g, '$1')
}

/** For a person: nobody else knows how far it came. `npx oncekey list --state parked` has them then. */
async function park<Tx>(once: Once<Tx>, ref: { tenant: string; scope: string; key: string }, recoveryPoint: string): Promise<void> {
  const unknown = new Error(`begun by the old system, which came to '${recoveryPoint}'`)
  const work = () => {
    throw unknown
  }
  await once.execute({ ...ref, fingerprint: false, afterFailure: 'park' }, work).catch((error: unknown) => {
    if (error !== unknown) throw error
  })
}
