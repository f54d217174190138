import type { Answer, HeaderPair } from '../../src/index.js'

/** An answer as a client sees it. */
export interface Seen {
  readonly status: number
  readonly headers: readonly HeaderPair[]
  readonly bytes: readonly number[]
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: each answer has a body of its own, and the test says which.
  readonly json: any
  /** The first line of that name. */
  header(name: string): string | undefined
}

export function seen({ status, headers, body }: Answer): Seen {
  const text = new TextDecoder().decode(body)
  return {
    status,
    headers,
    bytes: [...body],
    text,
    get json() {
      return JSON.parse(text)
    },
    header: (name) => headers.find(([each]) => each.toLowerCase() === name.toLowerCase())?.[1],
  }
}

/** What the layer itself says about a request, in whichever dialect: the status, and its own name for the problem. */
export function problemOf({ status, json, header }: Seen): { status: number; code: string } {
  // The documentation's address ends in our name, in Stripe's dialect too, where `code` may be Stripe's word.
  const page = /\/([a-z_]+)\.md>; rel="describedby"$/.exec(header('link') ?? '')?.[1]
  return { status, code: page ?? json.code ?? json.error?.code }
}

export const isReplay = ({ header }: Seen) => header('idempotent-replayed') === 'true'
