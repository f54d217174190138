import type { Processes } from './front.js'

interface Burst {
  key: string
  times: number
  order: object
}

/**
 * Sends one order many times at the same moment, to both services. From here, because a browser opens six connections at a time, and would
 * send the rest one after the other.
 */
export async function burst({ service, naive }: Processes, asked: unknown) {
  const { key, times, order } = asked as Burst
  const [withOncekey, without] = await Promise.all([sendAll(`${service.url}/orders`), sendAll(`${naive.url}/orders`)])
  return { with: withOncekey, without }

  function sendAll(url: string) {
    return Promise.all(
      Array.from({ length: Math.min(times, 500) }, async () => {
        const response = await fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'idempotency-key': key },
          body: JSON.stringify(order),
        }).catch(() => undefined)
        await response?.arrayBuffer().catch(() => {})
        const header = (name: string) => response?.headers.get(name) ?? null
        return { status: response?.status ?? 502, replayed: header('idempotent-replayed') === 'true', retryAfter: header('retry-after') }
      }),
    )
  }
}
