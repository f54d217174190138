import { alone } from './alone.js'
import { type Answer, attempt, isTooOld, type Sending, wasReplayed } from './attempts.js'
import { IdempotentFetchError } from './client-error.js'
import { keptRequests } from './kept-requests.js'
import { keyOf } from './key.js'
import { type IdempotentFetchOptions, type Settings, settingsOf } from './options.js'
import { isOwnersNow, ownerMissing, ownerNow } from './owner.js'
import { type PendingRequest, packed, unpacked } from './pending-request.js'
import { methodOf, type Snapshot, snapshotOf } from './snapshot.js'

/** What fetch returned, with three more properties. A `clone()` does not have them. */
export type IdempotentResponse = Response & {
  /** Whether the server had done it before, and repeats its answer. */
  readonly replayed: boolean
  /** How often it was sent in this call. */
  readonly attempts: number
  /** The key it was sent with; undefined for methods that get none. */
  readonly key: string | undefined
}

/** What came of a request that had been left without an answer. */
export type Resumed =
  /** The answer is there, and the request is no longer kept. */
  | { readonly kind: 'answered'; readonly request: PendingRequest; readonly response: IdempotentResponse }
  /** Still nothing that ends it, and it is still kept: the last answer, if there was one, or why there was none. */
  | {
      readonly kind: 'unanswered'
      readonly request: PendingRequest
      readonly response?: IdempotentResponse
      readonly error?: unknown
    }
  /** Older than `maxAge`, and not sent: find out what became of it, then `forget()` it. */
  | { readonly kind: 'too-old'; readonly request: PendingRequest }
  /** Another user's, by the option `owner`, and not sent: it waits for that user. */
  | { readonly kind: 'other-owner'; readonly request: PendingRequest }

export interface IdempotentFetch {
  (input: string | URL | Request, init?: RequestInit): Promise<IdempotentResponse>
  /** The present owner's requests that are kept: without an answer so far, those under way included. */
  pending(): Promise<readonly PendingRequest[]>
  /** Sends again what an earlier page or process, or an outage, left without an answer; one by one, oldest first. */
  resume(options?: { signal?: AbortSignal }): Promise<Resumed[]>
  /** Keeps a request no longer. Whether it was carried out stays as it is. */
  forget(id: string): Promise<void>
}

/** A `fetch` that may be called once and does it once: it makes a key, keeps it, and sends the same request until there is an answer. */
export function idempotentFetch(options: IdempotentFetchOptions = {}): IdempotentFetch {
  const settings = settingsOf(options)
  const { storage } = settings

  async function send(input: string | URL | Request, init: RequestInit = {}): Promise<IdempotentResponse> {
    if (!settings.methods.includes(methodOf(input, init))) return marked(await settings.fetch(input, init), 1, undefined)
    // Both at once: while one takes its time, another user may log in, and the caller may change the bytes.
    const [owner, snapshot] = await Promise.all([ownerNow(settings), snapshotOf(input, init)])
    const request = requestOf(settings, snapshot, owner)
    const { headers, body, signal } = snapshot
    const work = async () => {
      await keep(settings, request)
      return finish(settings, { request, headers, body, live: init, signal, mayHaveArrived: false })
    }
    const outcome = await alone(request.id, work, { isNew: true })
    if (outcome) return outcome.response
    throw new IdempotentFetchError('option_invalid', 'random.uuid() gave the id of a request under way: give each its own.')
  }

  /** Undefined if another sender has it, or had until now. */
  async function again(request: PendingRequest, signal: AbortSignal | undefined): Promise<Resumed | undefined> {
    if (!(await isOwnersNow(settings, request))) return { kind: 'other-owner', request }
    return alone(request.id, async (): Promise<Resumed | undefined> => {
      if (!(await storage.list()).some((entry) => entry?.id === request.id)) return undefined
      if (isTooOld(settings, request)) return { kind: 'too-old', request }
      try {
        const headers = new Headers(request.headers as [string, string][])
        const body = unpacked(request)
        const { response, final } = await finish(settings, { request, headers, body, live: {}, signal, mayHaveArrived: true })
        return { kind: final ? 'answered' : 'unanswered', request, response }
      } catch (error) {
        if (signal?.aborted) throw error
        return { kind: 'unanswered', request, error }
      }
    })
  }

  return Object.assign(send, {
    async pending() {
      const owner = await ownerNow(settings)
      return (await keptRequests(settings)).filter((request) => request.owner === owner)
    },
    async resume({ signal }: { signal?: AbortSignal } = {}) {
      // In one page, too, the next user may have logged in since.
      if (settings.owner === undefined) throw ownerMissing('resume()')
      const resumed: Resumed[] = []
      const requests = (await keptRequests(settings)).sort((one, other) => one.createdAt - other.createdAt)
      for (const request of requests) {
        const outcome = await again(request, signal)
        if (outcome) resumed.push(outcome)
      }
      return resumed
    },
    forget: (id: string) => drop(settings, id),
  })
}

interface Outcome extends Answer {
  readonly response: IdempotentResponse
}

/** From the first attempt on to the end; the request is kept for as long as it may be under way anywhere. */
async function finish(settings: Settings, sending: Sending): Promise<Outcome> {
  const { id, key } = sending.request
  let isDone = false
  try {
    const answer = await attempt(settings, sending)
    isDone = answer.final
    return { ...answer, response: marked(answer.response, answer.attempts, key) }
  } finally {
    // A request that is kept for nothing is harmless: its answer is replayed. The one that is here must not be lost for that.
    if (isDone || !sending.mayHaveArrived) await drop(settings, id).catch(() => {})
  }
}

async function drop({ storage }: Settings, id: string): Promise<void> {
  await storage.delete(id)
}

function requestOf(
  { clock, random, quoted, neverPersist, storage }: Settings,
  { headers, body, url, method, settings }: Snapshot,
  owner: string | undefined,
): PendingRequest {
  const id = random.uuid()
  const given = headers.get('idempotency-key')
  if (given === null) headers.set('idempotency-key', quoted ? `"${id}"` : id)
  const kept: [string, string][] = []
  headers.forEach((value, name) => {
    if (!neverPersist.includes(name)) kept.push([name, value])
  })
  const key = given === null ? id : keyOf(given)
  const whose = owner === undefined ? {} : { owner }
  return { id, key, ...whose, createdAt: clock.now(), url, method, headers: kept, ...packed(body, storage), settings }
}

async function keep(settings: Settings, request: PendingRequest): Promise<void> {
  try {
    await settings.storage.put(request, request.createdAt - settings.ms.maxAge)
  } catch (cause) {
    // It may be there all the same: what the caller believes unsent must not be sent later.
    await drop(settings, request.id).catch(() => {})
    throw new IdempotentFetchError('not_kept', 'The storage failed, and nothing was sent: see the cause.', { key: request.key, cause })
  }
}

/** On the response itself: a copy would not be one that fetch made, and a proxy is none at all to readers of its body. */
function marked(response: Response, attempts: number, key: string | undefined): IdempotentResponse {
  return Object.assign(response, { replayed: wasReplayed(response), attempts, key })
}
