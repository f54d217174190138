import { IdempotentFetchError } from './client-error.js'
import type { Settings } from './options.js'
import { isOwnersNow } from './owner.js'
import type { Body, PendingRequest } from './pending-request.js'
import { retryAfterMs, retryDelayMs } from './retry-delay.js'

/** What came of all attempts together. */
export interface Answer {
  readonly response: Response
  readonly attempts: number
  /** Whether the request is done with. Otherwise it stays, to be resumed. */
  readonly final: boolean
}

export interface Sending {
  readonly request: PendingRequest
  /** Those that are sent: with the secrets that are not kept, if the caller gave them. */
  readonly headers: Headers
  /** As fetch takes it: a request may keep it in another form. */
  readonly body: Body
  /** Options of fetch that cannot be kept, such as an agent. */
  readonly live: RequestInit
  readonly signal: AbortSignal | null | undefined
  /** Whether the server may have seen it: by an earlier life of this client, or since it was first sent. */
  mayHaveArrived: boolean
}

export const wasReplayed = ({ headers }: Response) => headers.get('idempotent-replayed') === 'true'

/** Sends until there is an answer, or there is no sense in going on. */
export async function attempt(settings: Settings, sending: Sending): Promise<Answer> {
  const { clock, random, ms } = settings
  const { request, signal } = sending
  const { key } = request
  const deadlineAt = clock.now() + ms.deadline
  let outcome: Once = {}
  for (let attempts = 1; ; attempts += 1) {
    const headers = await ready(settings, sending)
    const leftMs = deadlineAt - clock.now()
    if (attempts > 1 && leftMs <= 0) return lastOf(outcome, attempts - 1, key)
    const { mayHaveArrived } = sending
    sending.mayHaveArrived = true
    outcome = await sendOnce(settings, sending, headers, Math.min(ms.attemptTimeout, leftMs))
    const { response } = outcome
    if (response && !isRetryable(settings, response)) {
      if (isElsewhere(request, response)) {
        throw new IdempotentFetchError('redirected', 'A redirect is no answer: log in and resume(), or correct the address.', { key })
      }
      // What was sent before may have been carried out.
      return { response, attempts, final: !(mayHaveArrived && isBeside(response)) }
    }
    const asked = response && retryAfterMs(response.headers, clock.now())
    const waitMs = retryDelayMs(ms, attempts, asked, random.fraction())
    if (attempts >= settings.maxAttempts || clock.now() + waitMs >= deadlineAt) return lastOf(outcome, attempts, key)
    await wait(settings, waitMs, signal)
  }
}

/** The headers of the next attempt; or it throws, because the request must not be sent, or no longer. */
async function ready(settings: Settings, { request, headers: given, signal }: Sending): Promise<Headers> {
  const { url, method, key } = request
  const headers = new Headers(given)
  await settings.prepare?.({ url, method, key, headers })
  // After prepare(), which takes its time: the last look before cookies go out.
  if (!(await isOwnersNow(settings, request))) {
    throw new IdempotentFetchError('other_owner', 'The user has changed: resume() sends this when the one who made it is back.', { key })
  }
  if (signal?.aborted) throw reasonOf(signal)
  // Also in the middle: a laptop may have slept for a day, and then the server has forgotten the key.
  if (isTooOld(settings, request)) {
    throw new IdempotentFetchError('too_old', 'Older than maxAge: the server may have forgotten the key.', { key })
  }
  return headers
}

/** What came of one attempt. */
interface Once {
  readonly response?: Response
  readonly failure?: unknown
}

function lastOf({ response, failure }: Once, attempts: number, key: string): Answer {
  if (response) return { response, attempts, final: false }
  throw new IdempotentFetchError(
    'no_answer',
    `No answer in ${attempts} attempts. It may have been carried out: resume() sends the same key.`,
    { key, cause: failure },
  )
}

export function isTooOld({ clock, ms }: Settings, { createdAt }: PendingRequest): boolean {
  // Far in the future is no better: then the device's clock was set, and its age is unknown.
  return Math.abs(clock.now() - createdAt) > ms.maxAge
}

function isRetryable({ retryOn }: Settings, response: Response): boolean {
  const { status, headers } = response
  // What is stored stays as it is, whatever its status.
  if (wasReplayed(response) || headers.get('stripe-should-retry') === 'false') return false
  if (status === 202) return headers.has('retry-after') && !headers.has('location') // in progress; work of its own has a place to ask at
  return [409, 425, 429].includes(status) || (status >= 500 && retryOn(status))
}

/** Of a redirect that it does not follow, a browser shows a status of 0. Many a fetch follows them, whatever it is told. */
const isElsewhere = ({ settings }: PendingRequest, { status, redirected }: Response) => !status || (redirected && !settings.redirect)

/** Says who asks, or what a gateway in front knows, and not what became of the request. */
const isBeside = (response: Response) =>
  !wasReplayed(response) && (response.redirected || /^(3..|40[134578]|42[13])$/.test(String(response.status)))

async function sendOnce(settings: Settings, { request, body, live, signal }: Sending, headers: Headers, limitMs: number): Promise<Once> {
  const controller = new AbortController()
  const stop = () => controller.abort()
  const callOff = settings.clock.schedule(() => controller.abort(new Error(`No answer in ${limitMs} ms.`)), limitMs)
  signal?.addEventListener('abort', stop)
  try {
    const { url, method, settings: kept } = request
    // The key goes to the address that was named, and to no other.
    const init = { ...live, redirect: 'manual', ...kept, method, headers, body: body ?? null, signal: controller.signal }
    const response = await settings.fetch(url, init as RequestInit)
    await untilComplete(response)
    return { response }
  } catch (failure) {
    if (signal?.aborted) throw reasonOf(signal)
    return { failure }
  } finally {
    callOff()
    signal?.removeEventListener('abort', stop)
  }
}

/** An answer counts when its last byte is there: until then it can still be lost, and a retry gets it again. */
async function untilComplete(response: Response): Promise<void> {
  // React Native has no streams: its answers are complete from the start.
  const reader = response.clone().body?.getReader()
  while (reader && !(await reader.read()).done);
}

function wait({ clock }: Settings, waitMs: number, signal: AbortSignal | null | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      callOff()
      reject(reasonOf(signal as AbortSignal))
    }
    const callOff = clock.schedule(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, waitMs)
    signal?.addEventListener('abort', stop)
  })
}

/** React Native has signals without a reason. */
const reasonOf = ({ reason }: AbortSignal): unknown => reason ?? Object.assign(new Error('Aborted.'), { name: 'AbortError' })
