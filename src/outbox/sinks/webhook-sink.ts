import { type Duration, durationMs } from '../../core/duration.js'
import { OncekeyError } from '../../core/errors.js'
import type { Delivery, Job, Sink } from '../sink.js'
import { retryAfterMs } from './retry-after.js'

/** The subset of `Webhook` of the `standardwebhooks` package that we need. */
export interface WebhookSigner {
  sign(msgId: string, timestamp: Date, payload: string): string
}

export interface WebhookSinkOptions {
  /** Where jobs are posted to. */
  url: string | URL
  /** Signs each delivery by Standard Webhooks: `new Webhook(secret)` of the `standardwebhooks` package. Default: it is not signed. */
  signer?: WebhookSigner
  /** Headers of your own, for each delivery. Default: none. */
  headers?: Readonly<Record<string, string>>
  /** How long the receiver may take. Too low: honest work is repeated. Too high: one that hangs holds a slot. Default 15 s. */
  timeout?: Duration
  /** What is posted, as a value for JSON; the same for each attempt. Default: `{ type, timestamp, data }`, as Standard Webhooks has it. */
  body?: (job: Job) => unknown
  /** Which statuses mean that no other attempt can succeed. Too wide: a receiver that is half deployed costs dead letters. Default: 410. */
  isFinal?: (status: number) => boolean
  /** For logs and metrics. Default `webhook`. */
  name?: string
  /** For a fetch of your own, with another agent. Default: that of Node. */
  fetch?: typeof fetch
}

/** Posts jobs as JSON. The receiver recognises a repetition by `Idempotency-Key` and `webhook-id`, which are the job's id. */
export function webhookSink(options: WebhookSinkOptions): Sink {
  const { signer, headers = {}, timeout = '15s', name = 'webhook', isFinal = (status) => status === 410 } = options
  const { body = standardBody, fetch: send = fetch } = options
  const url = checkedUrl(options.url)
  const timeoutMs = durationMs(timeout, 'timeout')
  if (signer !== undefined && typeof signer.sign !== 'function') {
    throw new OncekeyError('option_invalid', 'signer has sign(): pass `new Webhook(secret)` of the standardwebhooks package.')
  }

  async function post(job: Job, signal: AbortSignal): Promise<Delivery> {
    const text = JSON.stringify(body(job) ?? null)
    const response = await send(url, {
      method: 'POST',
      body: text,
      // A receiver that moved has to say so to a person: its new address may be anybody's.
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      headers: {
        ...headers,
        'content-type': 'application/json',
        'idempotency-key': job.id,
        'webhook-id': job.id,
        ...(signer ? signed(signer, job.id, text) : {}),
      },
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

function signed(signer: WebhookSigner, id: string, text: string): Record<string, string> {
  const at = new Date()
  return { 'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)), 'webhook-signature': signer.sign(id, at, text) }
}

/** Answers to webhooks are short. What is longer is not waited for, at the cost of the connection. */
const mostDrainedBytes = 65_536

/** A body that nobody reads keeps its connection from being used again. */
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
