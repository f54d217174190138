/** One finding of the doctor. `warn`: it works now, but is a risk. `fail`: a promise is broken. */
export interface Check {
  readonly name: string
  readonly level: 'ok' | 'warn' | 'fail'
  readonly says: string
  /** What to do about it. Null for `ok`. */
  readonly todo: string | null
}

export const ok = (name: string, says: string): Check => ({ name, level: 'ok', says, todo: null })
export const warn = (name: string, says: string, todo: string): Check => ({ name, level: 'warn', says, todo })
export const fail = (name: string, says: string, todo: string): Check => ({ name, level: 'fail', says, todo })
