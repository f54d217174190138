import { OncekeyError } from '../../core/errors.js'

/** The schema's name, quoted, so that any name is safe in a statement. */
export function quotedSchema(name: string): string {
  const tooLong = typeof name !== 'string' || Buffer.byteLength(name) > 63
  if (tooLong || name === '' || name.includes('\0')) {
    throw new OncekeyError('option_invalid', 'schema is the name of a Postgres schema: 1 to 63 bytes, without NUL.')
  }
  return `"${name.replaceAll('"', '""')}"`
}
