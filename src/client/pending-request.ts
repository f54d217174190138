/** A request that has no answer yet, as it is kept. It is plain JSON, so that any storage can hold it. */
export interface PendingRequest {
  readonly id: string
  readonly key: string
  /** Milliseconds since the epoch, by this device's clock. */
  readonly createdAt: number
  readonly url: string
  readonly method: string
  /** With the key's own, without secrets. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body?: string
  /** Whether `body` is bytes in base64. */
  readonly base64?: true
  /** Of fetch: `credentials`, `mode` and the like. */
  readonly settings: Readonly<Record<string, unknown>>
}

/** Where requests are kept from before they are sent until their answer is there. */
export interface PendingStorage {
  /** Resolves when the request would survive a crash. What was made before `sendableSince` is never sent again: memory drops it. */
  put(request: PendingRequest, sendableSince?: number): Promise<void> | void
  delete(id: string): Promise<void> | void
  list(): Promise<readonly PendingRequest[]> | readonly PendingRequest[]
}

export type Body = string | Uint8Array<ArrayBuffer> | undefined

export function packed(body: Body): Pick<PendingRequest, 'body' | 'base64'> {
  if (body === undefined) return {}
  if (typeof body === 'string') return { body }
  let binary = ''
  for (const byte of body) binary += String.fromCharCode(byte)
  return { body: btoa(binary), base64: true }
}

export function unpacked({ body, base64 }: Pick<PendingRequest, 'body' | 'base64'>): Body {
  return !base64 ? body : Uint8Array.from(atob(body as string), (character) => character.charCodeAt(0))
}
