import type { Flow, Told } from './flows.js'
import { longestClaimMs } from './limits.js'
import type { Service } from './service.js'

/** Clients that retry until they are told to end, four for each key. */
export function insist(service: Service, asked: readonly (readonly [Flow, string])[]) {
  let isOver = false
  const told: Told[] = []
  const client = async ([flow, id]: readonly [Flow, string]) => {
    while (!isOver) {
      const [one] = await service.requests([flow, { id }])
      if (one) told.push(one)
      await new Promise((resolve) => setTimeout(resolve, 400))
    }
  }
  const clients = Promise.all([...asked, ...asked, ...asked, ...asked].map(client))
  return {
    /** Requests that hang are the service's to tell. */
    async end(): Promise<Told[]> {
      isOver = true
      await Promise.race([clients, new Promise((resolve) => setTimeout(resolve, longestClaimMs))])
      return told
    },
  }
}
