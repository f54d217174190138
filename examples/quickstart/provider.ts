import type { Provider } from './orders.js'

/** A provider inside the process that remembers keys. `slow` and `declined` are items that it treats accordingly. */
export function fakeProvider(): Provider & { charges(): number } {
  const charges = new Map<string, { id: string; declined: boolean }>()
  return {
    async charge({ item }, { idempotencyKey }) {
      if (item === 'slow') await new Promise((resolve) => setTimeout(resolve, 2_000))
      const known = charges.get(idempotencyKey)
      if (known) return known
      const charge = { id: `ch_${charges.size + 1}`, declined: item === 'declined' }
      charges.set(idempotencyKey, charge)
      return charge
    },
    charges: () => charges.size,
  }
}
