import type { KeySummary } from '../../stores/postgres/queries/key-summary.js'
import { agreed, atDesk, type ChangeOptions, type Desk, newChange, noteOf, type Report } from '../command.js'
import { refused } from '../exit-codes.js'
import { findKey, type KeyName, nameOf, namesKey } from '../find-key.js'
import type { Registered } from '../registered.js'
import { printable } from '../words.js'

type RetryOptions = ChangeOptions & KeyName

export const retry: Registered = (world, done) =>
  namesKey(newChange('retry', 'Makes a waiting key due now, and a parked one too if no outcome is in doubt.')).action(
    async (key: string | undefined, options: RetryOptions) => done(await atDesk(world, options, (desk) => retried(desk, key, options))),
  )

async function retried(desk: Desk, name: string | undefined, options: RetryOptions): Promise<Report> {
  const { world, operator } = desk
  const { key } = await findKey(desk, name, options)
  const shown = printable(key.key)
  const problem = problemOf(key)
  if (problem) throw refused(`${shown} ${problem} Nothing was changed.`)
  await agreed(world, options, `${shown} is ${key.state}${key.reason ? ` (${printable(key.reason)})` : ''}. Make it due now?`)
  const done = await operator.keyRetry(key, { note: noteOf(world, 'retried', options) })
  if (!done) throw refused(`${shown} has changed since it was shown. Look again: oncekey show ${nameOf(key)}. Nothing was changed.`)
  return {
    data: { id: key.id, tenant: key.tenant, was: key.state, state: 'pending' },
    lines: [`${shown} is due now: a worker takes it, or the next retry of its client.`],
  }
}

/** Why a key cannot be retried; null if it can. */
function problemOf(key: KeySummary): string | null {
  switch (key.state) {
    case 'pending':
      return null
    case 'complete':
    case 'failed':
      return `is ${key.state}: it has its answer, and every retry gets it. A finished key never runs again.`
    case 'processing':
      return `is in progress. If its holder is gone: oncekey release ${nameOf(key)}.`
    case 'parked':
      if (key.parkedStep === null && key.afterFailure === 'rerun') return null
      return `is parked because it is unknown whether ${key.parkedStep === null ? 'it' : `'${printable(key.parkedStep)}'`} took effect. Resolve it: oncekey resolve ${nameOf(key)}.`
  }
}
