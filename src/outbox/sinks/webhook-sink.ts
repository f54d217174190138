import { type Duration, durationMs } from '../../core/duration.js'
import { OncekeyError } from '../../core/errors.js'
import { thrownText } from '../../core/thrown-text.js'
import type { Delivery, Job, Sink } from '../sink.js'
import { retryAfterMs } from './retry-after.js'

/** The subset of `Webhook` of the `standardwebhooks` package that we need. */
export interface WebhookSigner {
  sign(msgId: string, timestamp: Date, payload: string): string
}

export interface WebhookSinkOptions {
  /** Where jobs are posted to. */
  url: string | URL
  /** Signs each delivery by Standard Webhooks: `new Webhook(secret)` of the `standardwebhooks` package. Default: unsigned. */
  signer?: WebhookSigner
  /** Headers of each delivery. A `Content-Type` replaces `application/json`; the id, the key and the signature cannot be replaced. Default: none. */
  headers?: Readonly<Record<string, string>>
  /** How long the receiver may take. Too low: slow work is repeated. Too high: a hanging receiver holds a slot. Default 15 s. */
  timeout?: Duration
  /** The JSON value to post; the same for each attempt. Default: `{ type, timestamp, data }`, as in Standard Webhooks. */
  body?: (job: Job) => unknown
  /** Statuses after which no attempt can succeed. Too wide: a half-deployed receiver causes dead letters. Default: 410. */
  isFinal?: (status: number) => boolean
  /** For logs and metrics. Default `webhook`. */
  name?: string
  /** A custom fetch, such as with another agent. Default: Node's. */
  fetch?: typeof fetch
}

/** Posts jobs as JSON. The receiver detects repetitions by `Idempotency-Key` or `webhook-id`, both the job's id. */
export function webhookSink(options: WebhookSinkOptions): Sink {
  const { signer, timeout = '15s', name = 'webhook', isFinal = (status) => status === 410 } = options
  const { body = standardBody, fetch: send = fetch } = options
  const url = checkedUrl(options.url)
  const common = checkedHeaders(options.headers)
  const timeoutMs = durationMs(timeout, 'timeout')
  if (signer !== undefined && typeof signer.sign !== 'function') {
    throw new OncekeyError('option_invalid', 'signer must have sign(): pass `new Webhook(secret)` of the standardwebhooks package.')
  }

  async function post(job: Job, signal: AbortSignal): Promise<Delivery> {
    const text = JSON.stringify(body(job) ?? null)
    const headers = new Headers(common)
    for (const [name, value] of Object.entries(ownHeaders(job, text, signer))) headers.set(name, value)
    const response = await send(url, {
      method: 'POST',
      body: text,
      // A redirect is a failure: its target may belong to anyone.
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      headers,
    })
    await drain(response)
    if (response.ok) return 'delivered'
    const error = new Error(`${url.host} answered ${response.status}`)
    return { error, final: isFinal(response.status), ...retryAfterMs(response.headers) }
  }

  return {
    name,
    maxBatch: 1,
    deliver: (jobs, { signal }) => Promise.all(jobs.map((job) => post(job, signal))),
  }
}

function standardBody({ name, stagedAt, payload }: Job): unknown {
  return { type: name, timestamp: new Date(stagedAt).toISOString(), data: payload }
}

/** The headers that identify a delivery. */
function ownHeaders({ id }: Job, text: string, signer: WebhookSigner | undefined): Record<string, string> {
  const identity = { 'idempotency-key': id, 'webhook-id': id }
  if (!signer) return identity
  const at = new Date()
  return { ...identity, 'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)), 'webhook-signature': signer.sign(id, at, text) }
}

const reserved = ['idempotency-key', 'webhook-id', 'webhook-timestamp', 'webhook-signature']

/** `Headers` compares names without case. */
function checkedHeaders(given: WebhookSinkOptions['headers'] = {}): Headers {
  const headers = new Headers({ 'content-type': 'application/json' })
  try {
    for (const [name, value] of Object.entries(given)) headers.set(name, value)
  } catch (cause) {
    throw new OncekeyError('option_invalid', `headers cannot be sent: ${thrownText(cause)}`, { cause })
  }
  const taken = Object.keys(given).find((name) => reserved.includes(name.toLowerCase()))
  if (taken === undefined) return headers
  throw new OncekeyError('option_invalid', `headers has ${taken}, which the sink sets for each delivery: leave it out.`)
}

/** The most bytes read of a response. A longer one costs the connection. */
const mostDrainedBytes = 65_536

/** An unread body keeps its connection from being reused. */
async function drain({ body }: Response): Promise<void> {
  if (!body) return
  let bytes = 0
  // Leaving the loop early cancels the rest.
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength
    if (bytes > mostDrainedBytes) return
  }
}

function checkedUrl(url: unknown): URL {
  const text = String(url)
  if (URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol)) return new URL(text)
  throw new OncekeyError('option_invalid', `url is ${text}: webhookSink() needs an absolute http or https address.`)
}
