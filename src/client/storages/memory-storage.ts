import type { PendingRequest, PendingStorage } from '../pending-request.js'

/** Lives and dies with the page or process: a request can be resumed after an outage, not after a restart. */
export function memoryStorage(): PendingStorage {
  const requests = new Map<string, PendingRequest>()
  return {
    keepsBytes: true,
    put(request, sendableSince = 0) {
      // They may never be read, and the process may run for months.
      for (const { id, createdAt } of requests.values()) {
        if (createdAt >= sendableSince) break // the oldest come first
        requests.delete(id)
      }
      requests.set(request.id, request)
    },
    delete: (id) => void requests.delete(id),
    list: () => [...requests.values()],
  }
}
