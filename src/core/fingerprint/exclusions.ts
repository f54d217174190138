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

/** A tree of the excluded pointers. */
export type ExcludedMembers = readonly {
  readonly name: string
  /** As in canonical JSON. */
  readonly quotedName: Uint8Array
  /** Whether the member itself is left out, not only some of its content. Elements are not: that would move the others. */
  readonly isWhole: boolean
  readonly inside: ExcludedMembers
}[]

export function excludedMembers(pointers: readonly string[]): ExcludedMembers {
  const paths = pointers.map((pointer) => pointer.split('/').slice(1).map(unescapeStep))
  return membersOn(paths)
}

function membersOn(paths: readonly (readonly string[])[]): ExcludedMembers {
  const names = new Set(paths.map(([name = '']) => name))
  return Array.from(names, (name) => {
    const rests = paths.filter((path) => path[0] === name).map((path) => path.slice(1))
    const inside = membersOn(rests.filter((rest) => rest.length > 0))
    return { name, quotedName: Buffer.from(JSON.stringify(name)), isWhole: rests.some((rest) => rest.length === 0), inside }
  })
}

export function withoutParameters(query: string, names: readonly string[]): string {
  if (names.length === 0) return query
  return query
    .split('&')
    .filter((pair) => !names.includes(parameterName(pair)))
    .join('&')
}

function parameterName(pair: string): string {
  // The ampersand keeps a leading question mark as part of the name.
  return [...new URLSearchParams(`&${pair}`).keys()][0] ?? ''
}

const unescapeStep = (step: string) => step.replaceAll('~1', '/').replaceAll('~0', '~')
