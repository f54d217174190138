import type { Answer } from '../core/answer.js'
import { OncekeyError } from '../core/errors.js'
import { isExpired, type KeyRecord } from '../core/record.js'
import type { KeySighting, Limit } from '../core/store.js'
import type { Once, OnceInternals } from '../create-once.js'
import type { Outcome } from '../engine/outcome.js'
import { patiently } from '../engine/patience.js'
import { refusalOf } from './admit.js'
import { checkFunction, type HttpSettings, pollAfterMs, resolveHttpOptions, type StatusOptions, secondsOf } from './options.js'
import { problemReply, replyTo, type Unfinished, unfinishedReply } from './replies.js'
import type { HttpRequest } from './request.js'
import type { Service } from './serve.js'

/** As often as a claim: a request must not wait out an outage. */
const readTries = 3

/** The status resource of operations: their state, then their answer. Framework-free, like `serviceOf()`. */
export function statusOf<Native, Tx>(once: Once<Tx>, options: StatusOptions<Native>): Service<Native> {
  if (typeof once?.execute !== 'function') throw new OncekeyError('option_invalid', 'status() needs what createOnce() made.')
  const settings = resolveHttpOptions<Native>(options, () => false)
  checkFunction('id', options.id)
  const retryAfterSeconds = secondsOf(pollAfterMs(options))

  return {
    // It reads no body.
    maxBodyBytes: 0,

    async answer(request) {
      const id = options.id ? await options.id(request.native) : lastSegmentOf(request)
      const tenant = await settings.tenantOf(request.native)
      try {
        const seen = await look(once.internals, { tenant, id: id ?? '' })
        return neverCached(statusReply(settings, seen, retryAfterSeconds))
      } catch (error) {
        const refusal = refusalOf(settings, error)
        if (refusal) return neverCached(refusal)
        throw error
      }
    },
  }
}

function look({ parts }: Pick<OnceInternals<never>, 'parts'>, wanted: { tenant: string; id: string }): Promise<KeySighting | undefined> {
  const { store, clock, storeTimeoutMs } = parts
  const read = (limit: Limit) => store.keyReadById(wanted, limit, { request: false })
  return patiently(read, { until: clock.monotonic() + storeTimeoutMs, tries: readTries }, parts)
}

const lastSegmentOf = ({ path }: HttpRequest) => path.split('/').findLast((segment) => segment !== '')

type Settings = HttpSettings<never>

/** The answer for a key. An id of another tenant looks like an unknown one. */
function statusReply(settings: Settings, seen: KeySighting | undefined, retryAfterSeconds: number): Answer {
  if (!seen) return problemReply(settings, { code: 'operation_unknown' })
  const { record, now } = seen
  if (isExpired(record, now)) return problemReply(settings, { code: 'operation_expired' })
  const ended = endOf(record)
  if (ended) return replyTo(settings, ended)
  return unfinishedReply(settings, 200, unfinished(record), [['retry-after', String(retryAfterSeconds)]])
}

/** What a retry would get, if the operation has ended. */
function endOf({ state, answer, incarnation }: KeyRecord): Extract<Outcome<Answer>, { kind: 'replayed' | 'parked' }> | undefined {
  if (!answer) return undefined
  return state === 'parked' ? { kind: 'parked', answer } : { kind: 'replayed', state: state as 'failed', answer, incarnation }
}

function unfinished({ id, state, createdAt, fence }: KeyRecord): Unfinished {
  const known = { id, state: state as Unfinished['state'], createdAt: new Date(createdAt).toISOString() }
  return fence === 0 ? known : { ...known, attempt: fence }
}

/** The state changes, and belongs to one tenant. An operation may set its own header. */
export function neverCached(answer: Answer): Answer {
  if (answer.headers.some(([name]) => name.toLowerCase() === 'cache-control')) return answer
  return { ...answer, headers: [...answer.headers, ['cache-control', 'no-store']] }
}
