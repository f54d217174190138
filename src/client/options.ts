import { IdempotentFetchError } from './client-error.js'
import { type ClientClock, type ClientRandom, systemClock } from './clock.js'
import { defined } from './defined.js'
import { type Duration, durationMs } from './duration.js'
import { newKey } from './key.js'
import { type Owner, ownerMissing } from './owner.js'
import type { PendingStorage, UnreadableRequest } from './pending-request.js'
import { memoryStorage } from './storages/memory-storage.js'

/** What `prepare` sees before each attempt. It may change the headers, and nothing else: a retry is the same request. */
export interface PreparedRequest {
  readonly url: string
  readonly method: string
  readonly key: string
  readonly headers: Headers
}

export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>

export interface IdempotentFetchOptions {
  /** Where requests are kept until their answer is there: `webStorage()`, `indexedDbStorage()`, `fileStorage()`. Default: memory, which a reload empties. */
  storage?: PendingStorage
  /**
   * The user whose requests these are: a kept request is sent for the user who made it, and left alone for all others. A function such as
   * `() => session.userId`, or `'single'` if there is only one user. A `storage` and `resume()` need it. Default: none.
   */
  owner?: Owner
  /** How old a kept request may be when it is sent again. Too low: given up while the server still knew it. Higher than the server's retention: done twice. Default 23 h. */
  maxAge?: Duration
  /** Called before each attempt, also after a restart: adds the headers that are not kept, such as `Authorization`. Default: nothing. */
  prepare?: (request: PreparedRequest) => void | Promise<void>
  /** Called by `pending()` and `resume()` for each entry of the storage that cannot be read; it stays there. Default: a warning on the console. */
  onUnreadable?: (entry: UnreadableRequest) => void
  /** Names of headers that are not kept, besides those of credentials (see `neverKept`). Default: none. */
  neverPersist?: readonly string[]
  /** The methods that get a key and are tried again; all others go straight to fetch. Default: POST and PATCH, as servers have it. */
  methods?: readonly string[]
  /** Puts keys that are made here in quotes, as the IETF draft has it. `false` is for servers that insist on a bare UUID. Default `true`. */
  quoted?: boolean
  /** How often a request is sent at most. Too low: a short outage is an error. Too high: a server in trouble gets more. Default 6. */
  maxAttempts?: number
  /** How long one attempt may take, its answer included. Too low: honest work is asked for again. Too high: a dead connection is noticed late. Default 30 s. */
  attemptTimeout?: Duration
  /** How long all attempts may take; nothing is sent after it. Too low: an outage is an error. Too high: users wait. Default 2 min. */
  deadline?: Duration
  /** The longest wait before the second attempt; it doubles with each further one. Too low: a hiccup uses up attempts. Default 500 ms. */
  firstDelay?: Duration
  /** The longest wait, unless the server asks for more. Too low: a server in trouble is asked often. Too high: it is noticed late that it is back. Default 10 s. */
  maxDelay?: Duration
  /** Which statuses from 500 on are tried again. 409, 425 and 429 always are, other 4xx never, nor is a replay. Default: all but 501 and 505. */
  retryOn?: (status: number) => boolean
  /** For a fetch of your own. Default: the global one, as it is at the time of the call. */
  fetch?: Fetch
  /** For tests. Default: the system's. */
  clock?: ClientClock
  /** For tests. Default: the system's. */
  random?: ClientRandom
}

/** Credentials, and tokens that are stale after a reload. */
export const neverKept = ['authorization', 'proxy-authorization', 'cookie', 'x-api-key', 'x-csrf-token', 'x-xsrf-token']

const defaults = {
  maxAge: '23h',
  attemptTimeout: '30s',
  deadline: '2m',
  firstDelay: 500,
  maxDelay: '10s',
  maxAttempts: 6,
  methods: ['POST', 'PATCH'],
  onUnreadable: ({ id, error }) =>
    console.warn(
      `oncekey: the kept request ${id} cannot be read. It is left in place; forget() it when you know what became of it.`,
      error,
    ),
  neverPersist: [],
  quoted: true,
  retryOn: (status) => status !== 501 && status !== 505,
  fetch: (input, init) => globalThis.fetch(input, init),
  clock: systemClock,
  random: { uuid: newKey, fraction: () => Math.random() },
} satisfies IdempotentFetchOptions

const durations = ['maxAge', 'attemptTimeout', 'deadline', 'firstDelay', 'maxDelay'] as const

type Given = Omit<Required<IdempotentFetchOptions>, (typeof durations)[number] | Optional>

type Optional = 'prepare' | 'owner'

/** All options, checked; durations in milliseconds. */
export interface Settings extends Given, Readonly<Pick<IdempotentFetchOptions, Optional>> {
  readonly ms: Readonly<Record<(typeof durations)[number], number>>
}

export function settingsOf(options: IdempotentFetchOptions): Settings {
  const given = { storage: memoryStorage(), ...defaults, ...defined(options) }
  const { maxAttempts, methods, neverPersist } = given
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1) {
    throw new IdempotentFetchError('option_invalid', `maxAttempts is ${maxAttempts}: give a whole number, at least 1.`)
  }
  if (options.storage && given.owner === undefined) {
    throw ownerMissing('A storage')
  }
  return {
    ...given,
    methods: methods.map((method) => method.toUpperCase()),
    neverPersist: neverKept.concat(neverPersist.map((name) => name.toLowerCase())),
    ms: Object.fromEntries(durations.map((name) => [name, durationMs(given[name], name)])) as Settings['ms'],
  }
}
