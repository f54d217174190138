import type { PendingStorage } from '../pending-request.js'

/** The subset of `Storage` that we need. */
export interface StorageArea {
  readonly length: number
  key(index: number): string | null
  getItem(name: string): string | null
  setItem(name: string, value: string): void
  removeItem(name: string): void
}

const prefix = 'oncekey:pending:'

/** `localStorage`, or another area of its kind. It holds about 5 MB in all: for larger bodies there is `indexedDbStorage()`. */
export function webStorage(area = (globalThis as unknown as { localStorage: StorageArea }).localStorage): PendingStorage {
  return {
    put: (request) => area.setItem(prefix + request.id, JSON.stringify(request)),
    delete: (id) => area.removeItem(prefix + id),
    list() {
      const names = Array.from({ length: area.length }, (_, index) => area.key(index) ?? '')
      return names.flatMap((name) => {
        const json = name.startsWith(prefix) ? area.getItem(name) : null
        // Another tab may have removed it since.
        return json === null ? [] : [{ id: name.slice(prefix.length), json }]
      })
    },
  }
}
