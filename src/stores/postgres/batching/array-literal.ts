/**
 * Arrays as Postgres writes them, made here because no two drivers send arrays alike, and all of them send a text. The statement
 * casts it: `$1::text::uuid[]`.
 */
export function arrayLiteral(values: readonly (string | number | Uint8Array | null)[]): string {
  let literal = '{'
  for (let index = 0; index < values.length; index += 1) {
    if (index > 0) literal += ','
    literal += elementOf(values[index] as string | number | Uint8Array | null)
  }
  return `${literal}}`
}

function elementOf(value: string | number | Uint8Array | null): string {
  if (value === null) return 'NULL'
  if (typeof value === 'number') return String(value)
  if (typeof value === 'string') return plain.test(value) ? value : `"${value.replaceAll(special, '\\$&')}"`
  return `"\\\\x${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')}"`
}

/** UUIDs and most keys need no quotes. A word that reads NULL does. */
const plain = /^(?!null$)[\w.-]+$/i
const special = /["\\]/g
