import { OncekeyError } from '../../core/errors.js'
import type { Queryable } from './connections/connection.js'

/** A setting that changes what our statements mean, in a way that no other wording of them prevents. */
export interface NeededSetting {
  readonly name: string
  /** What it must be, as a value of `alter role … set`. */
  readonly value: string
  /** What goes wrong otherwise. */
  readonly why: string
  isRight(value: string): boolean
}

export const neededSettings: readonly NeededSetting[] = [
  {
    name: 'array_nulls',
    value: 'on',
    why: 'with "off", a missing value would be stored as the text NULL',
    isRight: (value) => value === 'on',
  },
  {
    name: 'extra_float_digits',
    value: '1',
    why: 'with less than 0, times would be rounded, by minutes or by years',
    isRight: (value) => Number(value) >= 0,
  },
  {
    name: 'client_encoding',
    value: 'UTF8',
    why: 'texts are sent as UTF-8, and would be stored as other texts',
    isRight: (value) => value === 'UTF8',
  },
]

/** What the texts of a database may be made of, and what becomes of others. Null: any text. */
export function encodingLimits(encoding: string): string | null {
  if (encoding === 'UTF8') return null
  if (encoding === 'SQL_ASCII') return 'the database checks no text, so what other programs write may not be readable'
  return `tenants, scopes, keys and names of steps, jobs and groups can only have characters of ${encoding}; others are refused with text_unsupported`
}

/** The encodings that this process was warned of. */
const warnedOf = new Set<string>()

/** Throws if the sessions of this connection are set up so that our statements would mean something else. */
export async function checkSession(db: Queryable): Promise<void> {
  const columns = [...neededSettings.map(({ name }) => name), 'server_encoding'].map(
    (name) => `current_setting('${name}', true) as ${name}`,
  )
  const [found = {}] = await db.query(`select ${columns.join(', ')}`, [])
  for (const { name, value, why, isRight } of neededSettings) {
    // Null: a server that speaks the protocol of Postgres and has no such setting.
    if (found[name] === null || isRight(found[name])) continue
    throw new OncekeyError(
      'session_setting_unsupported',
      `The setting ${name} is ${found[name]} in the sessions of this service, and must be ${value}: ${why}. ` +
        `Run: alter role current_user set ${name} = '${value}', and connect anew. Nothing was changed.`,
    )
  }
  const limits = found.server_encoding === null ? null : encodingLimits(found.server_encoding)
  if (limits === null || warnedOf.has(found.server_encoding)) return
  warnedOf.add(found.server_encoding)
  process.emitWarning(`The encoding of the database is ${found.server_encoding}, not UTF8: ${limits}.`, { code: 'ONCEKEY_ENCODING' })
}
