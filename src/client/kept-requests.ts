import type { Settings } from './options.js'
import type { KeptEntry, PendingRequest } from './pending-request.js'

/** The requests that are kept. An entry that cannot be read is reported, stays in place, and hides none of the others. */
export async function keptRequests({ storage, onUnreadable }: Pick<Settings, 'storage' | 'onUnreadable'>): Promise<PendingRequest[]> {
  const requests: PendingRequest[] = []
  for (const entry of await storage.list()) {
    try {
      requests.push(read(entry))
    } catch (error) {
      try {
        onUnreadable({ id: entry?.id, error })
      } catch {
        // A listener that throws hides no request either.
      }
    }
  }
  return requests
}

function read(entry: KeptEntry): PendingRequest {
  if ('error' in entry) throw entry.error
  const request = 'json' in entry ? JSON.parse(entry.json) : entry
  if (isRequest(request) && request.id === entry.id) return request
  throw new TypeError('It is no request as this release of oncekey keeps them.')
}

const isText = (value: unknown) => typeof value === 'string'

function isRequest(value: unknown): value is PendingRequest {
  const { id, key, owner = '', url, method, createdAt, headers, body = '', settings } = (value ?? {}) as Partial<PendingRequest>
  return (
    [id, key, owner, url, method].every(isText) &&
    typeof createdAt === 'number' &&
    Array.isArray(headers) &&
    headers.every((header) => Array.isArray(header) && header.every(isText)) &&
    (isText(body) || body instanceof Uint8Array) &&
    typeof settings === 'object'
  )
}
