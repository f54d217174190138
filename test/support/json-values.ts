import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

export const jsonValues = fc.jsonValue({ stringUnit: 'binary' }) as fc.Arbitrary<Json>

/** Values of few shapes, so that two of them are often equal and often almost. */
export const { small: smallJsonValues } = fc.letrec<{ small: Json }>((tie) => ({
  small: fc.oneof(
    { maxDepth: 2 },
    fc.constantFrom<Json>(null, true, false, 0, -0, 1, 10, '', '0', '1', 'a', 'null'),
    fc.array(tie('small'), { maxLength: 2 }),
    fc.dictionary(fc.constantFrom('a', 'b', '', '__proto__'), tie('small'), { maxKeys: 2, noNullPrototype: true }),
  ),
}))

/** As JSON sees them: -0 is 0. */
export const isEqualJson = (a: Json, b: Json) => isDeepStrictEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)))

/** One of the many texts that say the same, by the choices that come from `next`. */
export function spelled(value: Json, next: () => number): string {
  const space = () => ['', '', '', ' ', '\n\t'][next() % 5]
  const list = (items: string[]) => items.map((item) => `${space()}${item}${space()}`).join(',')
  if (typeof value === 'string') return spelledText(value, next)
  if (typeof value === 'number') return spelledNumber(value, next)
  if (Array.isArray(value)) return `[${list(value.map((item) => spelled(item, next)))}${space()}]`
  if (value === null || typeof value === 'boolean') return String(value)
  const members = Object.keys(value).map((name) => ({ rank: next(), name }))
  const shuffled = members.sort((a, b) => a.rank - b.rank)
  return `{${list(shuffled.map(({ name }) => `${spelledText(name, next)}${space()}:${space()}${spelled(value[name] as Json, next)}`))}}`
}

function spelledText(text: string, next: () => number): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  const characters = [...text].map((character) =>
    next() % 3 === 0 ? character.split('').map(escaped).join('') : JSON.stringify(character).slice(1, -1),
  )
  return `"${characters.join('')}"`
}

function spelledNumber(value: number, next: () => number): string {
  if (value === 0) return ['0', '-0', '0.00', '0e5', '-0.0E-1'][next() % 5] as string
  const plain = JSON.stringify(value)
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:e(.+))?$/.exec(plain) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+(?=\d)/, '')
  const power = Number(exponent) - fraction.length
  const ways = [
    plain,
    `${sign}${digits}e${power}`,
    `${sign}${digits}00E${power - 2}`,
    `${sign}0.${digits}e${power + digits.length}`,
    `${sign}${digits}.0e${power}`,
  ]
  return ways[next() % ways.length] as string
}

/** The value with `other` in the place of one of its parts. */
export function changedSomewhere(value: Json, other: Json, next: () => number): Json {
  const names = value !== null && typeof value === 'object' ? Object.keys(value) : []
  const name = names[next() % (names.length + 1)]
  if (name === undefined) return other
  const copy = structuredClone(value) as { [name: string]: Json }
  return Object.assign(copy, Object.fromEntries([[name, changedSomewhere(copy[name] as Json, other, next)]]))
}
