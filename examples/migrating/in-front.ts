// Stands in front of oncekey while keys of an earlier system may still be retried: answers what that system finished, lets nobody run what it
// began, and lets everything else pass.
import type { Request, RequestHandler } from 'express'

/** What the earlier system knows of a key. */
export type Earlier =
  /** Nothing; or the key is oncekey's already. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'finished'; readonly status: number; readonly body: unknown }
  /** Begun there: only the code that began it, or a person, can say what has happened. */
  | { readonly kind: 'unfinished' }

/** Mount it behind authentication, and in front of `idempotency()` or `serve()`. If it cannot look, nothing runs. */
export function inFront(find: (request: Request, key: string) => Promise<Earlier>): RequestHandler {
  return function earlierKeys(request, response, next) {
    const key = request.get('idempotency-key')
    if (key === undefined) return next()
    find(request, key)
      .then((earlier) => {
        if (earlier.kind === 'unknown') return next()
        if (earlier.kind === 'finished') {
          return void response.status(earlier.status).set('Idempotent-Replayed', 'true').json(earlier.body)
        }
        response.status(409).set('Retry-After', '5').json({ error: 'This request was begun and is not finished. Send it again later.' })
      })
      .catch(next)
  }
}
