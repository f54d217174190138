// Our side of the payment provider: any that honours idempotency keys, as Stripe and Adyen do, looks like this.
export interface Payments {
  charge(charge: Charge, options: CallOptions): Promise<{ id: string; declined: boolean }>
  refund(charge: string, options: CallOptions): Promise<{ id: string }>
}

interface Charge {
  customer: string
  cents: number
  /** Our own name for it, for the statement and for reconciling. */
  reference: string
}

interface CallOptions {
  /** The provider does what it gets with this key once. */
  key: string
  signal?: AbortSignal
}

export interface ProviderAccount {
  url: string
  account: string
  fetch: typeof fetch
}

export function paymentsAt({ url, account, fetch }: ProviderAccount): Payments {
  const post = (path: string, body: object, { key, signal }: CallOptions) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${account}`, 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify(body),
      signal: signal ?? null,
    })

  return {
    async charge(charge, options) {
      const response = await post('/charges', charge, options)
      if (response.status === 402) return { id: '', declined: true }
      return { id: await idOf(response), declined: false }
    },
    async refund(charge, options) {
      return { id: await idOf(await post('/refunds', { charge }, options)) }
    },
  }
}

/** Of any other answer nobody knows what it left behind: the next attempt asks again, with the same key. */
async function idOf(response: Response): Promise<string> {
  if (!response.ok) throw new Error(`The provider answered ${response.status}.`)
  return ((await response.json()) as { id: string }).id
}
