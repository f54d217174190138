export type Body = string | Uint8Array<ArrayBuffer> | undefined

/** A request that has no answer yet, as it is kept: plain JSON, unless its storage keeps bytes. */
export interface PendingRequest {
  readonly id: string
  readonly key: string
  /** The user who made it, by the option `owner`. */
  readonly owner?: string
  /** Milliseconds since the epoch, by this device's clock. */
  readonly createdAt: number
  readonly url: string
  readonly method: string
  /** With the key's own, without secrets. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body?: NonNullable<Body>
  /** Whether `body` is bytes in base64. */
  readonly base64?: true
  /** Of fetch: `credentials`, `mode` and the like. */
  readonly settings: Readonly<Record<string, unknown>>
}

/** Where requests are kept from before they are sent until their answer is there. */
export interface PendingStorage {
  /** Whether bytes may stay bytes, which is faster. Otherwise they are base64, so that a request is plain JSON. Default `false`. */
  readonly keepsBytes?: boolean | undefined
  /** Resolves when the request would survive a crash. What was made before `sendableSince` is never sent again: memory drops it. */
  put(request: PendingRequest, sendableSince?: number): Promise<void> | void
  delete(id: string): Promise<void> | void
  list(): Promise<readonly KeptEntry[]> | readonly KeptEntry[]
}

/** What a storage has under an `id`, by which it can be deleted: a request, or one as JSON that the client reads, or why it has no such text. */
export type KeptEntry = PendingRequest | { readonly id: string; readonly json: string } | UnreadableRequest

/** An entry that is no request that this release understands. It stays where it is: it may be a newer release's. */
export interface UnreadableRequest {
  readonly id: string
  readonly error: unknown
}

/** A multiple of 3, so that the base64 of all blocks in order is that of the whole; and few enough bytes to be the parameters of one call. */
const blockBytes = 6_144

/** Block by block: a text that grows by one character for each byte is slow and takes 40 times the memory. */
export function packed(body: Body, { keepsBytes }: Pick<PendingStorage, 'keepsBytes'> = {}): Pick<PendingRequest, 'body' | 'base64'> {
  if (body === undefined) return {}
  if (typeof body === 'string' || keepsBytes) return { body }
  let base64 = ''
  for (let at = 0; at < body.length; at += blockBytes) {
    const block = body.subarray(at, at + blockBytes)
    // Not as `...block`: that takes five times as long.
    base64 += btoa(Reflect.apply(String.fromCharCode, null, block))
  }
  return { body: base64, base64: true }
}

export function unpacked({ body, base64 }: Pick<PendingRequest, 'body' | 'base64'>): Body {
  if (!base64) return body
  const binary = atob(body as string)
  const bytes = new Uint8Array(binary.length)
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = binary.charCodeAt(at)
  return bytes
}
