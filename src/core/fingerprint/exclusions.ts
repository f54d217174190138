import { OncekeyError } from '../errors.js'

/** Parts of a request that may differ between honest retries, such as a client's `sent_at`. */
export interface Exclusions {
  /** JSON Pointers (RFC 6901) of members of a JSON body: `'/sent_at'`, `'/meta/attempt'`. */
  readonly body?: readonly string[]
  /** Names of query parameters. */
  readonly query?: readonly string[]
}

export function checkPointers(pointers: readonly string[]): readonly string[] {
  for (const pointer of pointers) {
    if (typeof pointer !== 'string' || !/^(\/([^~/]|~[01])*)+$/.test(pointer)) {
      throw new OncekeyError(
        'option_invalid',
        `${typeof pointer === 'string' ? JSON.stringify(pointer) : `A ${typeof pointer}`} is not a JSON Pointer to a member: write it like '/meta/sent_at'.`,
      )
    }
  }
  return pointers
}

/** The value without the members that the pointers name. It is changed in place: pass one that nobody else has. */
export function withoutMembers(value: unknown, pointers: readonly string[]): unknown {
  for (const pointer of pointers) {
    const path = pointer.split('/').slice(1).map(unescapeStep)
    const name = path.pop() as string
    const parent = path.reduce<unknown>((at, step) => (isContainer(at) && Object.hasOwn(at, step) ? at[step] : undefined), value)
    // Only members: an element taken out of an array would move the others.
    if (isContainer(parent) && !Array.isArray(parent)) delete parent[name]
  }
  return value
}

export function withoutParameters(query: string, names: readonly string[]): string {
  if (names.length === 0) return query
  return query
    .split('&')
    .filter((pair) => !names.includes(parameterName(pair)))
    .join('&')
}

function parameterName(pair: string): string {
  // The ampersand keeps a leading question mark from being taken for the beginning of the query.
  return [...new URLSearchParams(`&${pair}`).keys()][0] ?? ''
}

const unescapeStep = (step: string) => step.replaceAll('~1', '/').replaceAll('~0', '~')

const isContainer = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
