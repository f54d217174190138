import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** What somebody asked of the provider. */
export interface Asked {
  account: string
  key: string
  kind: 'charge' | 'refund'
  customer?: string
  cents?: number
  /** Of a refund: the charge. */
  charge?: string
}

/** What it answered, and goes on answering to the same key. */
export interface Entry extends Asked {
  status: number
  answer: { id?: string; error?: string }
}

/** The provider's books: what it has done, in a file, so that it is still true after `npm start` has ended. */
export function openLedger(file: string) {
  mkdirSync(dirname(file), { recursive: true })
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []
  const entries: Entry[] = lines.map((line) => JSON.parse(line))
  const done = (account: string, kind: Entry['kind']) =>
    entries.filter((entry) => entry.account === account && entry.kind === kind && entry.status === 201)

  return {
    entries: entries as readonly Entry[],

    /** Written down before anybody hears of it. */
    add(asked: Asked, decision: { status: 201 } | { status: number; error: string }): Entry {
      const id = `${asked.kind === 'charge' ? 'ch' : 're'}_${entries.length + 1}`
      const entry = { ...asked, status: decision.status, answer: 'error' in decision ? { error: decision.error } : { id } }
      appendFileSync(file, `${JSON.stringify(entry)}\n`)
      entries.push(entry)
      return entry
    },

    hasCharge: (account: string, charge: string | undefined) => done(account, 'charge').some(({ answer }) => answer.id === charge),
    hasRefund: (account: string, charge: string | undefined) => done(account, 'refund').some((entry) => entry.charge === charge),

    /** How often an account charged a customer, and how much in all. */
    chargesOf(account: string, customer: string | null) {
      const charges = done(account, 'charge').filter((entry) => entry.customer === customer)
      const refunds = new Set(done(account, 'refund').map(({ charge }) => charge))
      return {
        charged: charges.length,
        refunded: charges.filter(({ answer }) => refunds.has(answer.id)).length,
        cents: charges.reduce((sum, { cents = 0 }) => sum + cents, 0),
      }
    },
  }
}
