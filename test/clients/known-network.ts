import { type IdempotentFetchOptions, idempotentFetch, type KeptEntry, memoryStorage } from '../../src/client/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'

export const url = 'https://shop.example/charges'
export const post = { method: 'POST', body: '{"amount":100}' }

type Reply = number | Response | Error

interface Sent {
  readonly url: string
  readonly headers: Headers
  readonly body: unknown
  readonly at: number
  /** What was kept when it was sent. */
  readonly kept: readonly KeptEntry[]
}

/** A network of which each answer is known in advance; the last one stays. Time passes at once, and only between attempts. */
export function knownNetwork(replies: Reply[], options: IdempotentFetchOptions & { onWait?: (ms: number) => void } = {}) {
  const manual = manualClock()
  const storage = options.storage ?? memoryStorage()
  const sent: Sent[] = []
  const waits: number[] = []
  const limits: number[] = []
  let isSending = false
  const clock = {
    now: manual.now,
    schedule(task: () => void, delayMs: number) {
      if (isSending) {
        limits.push(delayMs)
        return manual.schedule(task, delayMs)
      }
      waits.push(delayMs)
      let isOff = false
      queueMicrotask(() => {
        options.onWait?.(delayMs)
        manual.advance(delayMs)
        if (!isOff) task()
      })
      return () => {
        isOff = true
      }
    },
  }
  const fetch = async (input: string | URL | Request, init: RequestInit = {}) => {
    sent.push({
      url: String(input),
      headers: new Headers(init.headers),
      body: init.body,
      at: manual.now(),
      kept: [...(await storage.list())],
    })
    const reply = replies[Math.min(sent.length, replies.length) - 1] as Reply
    isSending = false
    if (reply instanceof Error) throw reply
    return typeof reply === 'number' ? new Response(`${reply}`, { status: reply }) : reply.clone()
  }
  const random = { uuid: () => crypto.randomUUID(), fraction: () => 0.5 }
  const prepare: IdempotentFetchOptions['prepare'] = async (request) => {
    await options.prepare?.(request)
    isSending = true
  }
  const send = idempotentFetch({ random, owner: 'single', ...options, fetch, clock, storage, prepare })
  return { send, sent, waits, limits, storage, clock: manual }
}
