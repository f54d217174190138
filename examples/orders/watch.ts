import type { Processes } from './front.js'
import type { Supervised } from './supervised.js'

/** A service that hangs must not hang the page. */
const patienceMs = 5_000

/** What the page shows of a purchase: how the key, the charges and the processes are at this moment. Null is what nobody can say just now. */
export async function watch({ provider, service, naive }: Processes, asked: URLSearchParams) {
  const customer = `customer=${encodeURIComponent(asked.get('customer') ?? '')}`
  const [charges, key, orders, naiveOrders] = await Promise.all([
    read(provider, `/charges?${customer}`),
    read(service, `/keys/${encodeURIComponent(asked.get('key') || '-')}`),
    read(service, `/orders?${customer}`),
    read(naive, `/orders?${customer}`),
  ])
  return {
    processes: { provider: shown(provider), service: shown(service), naive: shown(naive) },
    charges,
    key,
    ...orders,
    naive: naiveOrders,
  }
}

const shown = ({ pid, state, deaths }: Supervised) => ({ pid, state, deaths })

async function read({ url, state }: Supervised, path: string) {
  if (state !== 'up') return null
  try {
    const response = await fetch(url + path, { signal: AbortSignal.timeout(patienceMs) })
    return (await response.json()) as Record<string, unknown>
  } catch {
    return null
  }
}
