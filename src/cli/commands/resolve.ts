import { type Answer, reply } from '../../core/answer.js'
import { inAscii } from '../../core/json-text.js'
import { storableText } from '../../core/storable-text.js'
import type { Resolution } from '../../core/store.js'
import { workFailed } from '../../core/system-answers.js'
import type { KeySummary } from '../../stores/postgres/queries/key-summary.js'
import { agreed, atDesk, type ChangeOptions, type Desk, newChange, type Report, wholeNumber } from '../command.js'
import { refused, wrongUsage } from '../exit-codes.js'
import { findKey, type KeyName, nameOf, namesKey } from '../find-key.js'
import type { Registered } from '../registered.js'
import { printable } from '../words.js'

interface ResolveOptions extends ChangeOptions, KeyName {
  readonly happened?: true
  readonly didNotHappen?: true
  readonly failed?: true
  readonly result?: string
  readonly status?: number
  readonly body?: string
}

export const resolve: Registered = (world, done) =>
  namesKey(newChange('resolve', 'Resolves a parked key: whether the call in question took effect.'))
    .option('--happened', 'it took effect: continue after it')
    .option('--result <json>', 'with --happened: what the call would have returned')
    .option('--did-not-happen', 'it did not: the next attempt makes it, or runs the work')
    .option('--failed', 'end it here: every retry gets a stored error')
    .option('--status <number>', 'with --failed: the status of that answer (default: 500)', wholeNumber(200, 599))
    .option('--body <json>', 'with --failed: its body (default: problem details, code work_failed)')
    .action(async (key: string | undefined, options: ResolveOptions) => {
      checkWords(options)
      done(await atDesk(world, options, (desk) => resolved(desk, key, options)))
    })

async function resolved(desk: Desk, name: string | undefined, options: ResolveOptions): Promise<Report> {
  const { world, operator } = desk
  const { key } = await findKey(desk, name, options)
  const shown = printable(key.key)
  if (key.state !== 'parked') throw refused(`${shown} is ${key.state}, not parked: there is nothing to resolve. Nothing was changed.`)
  if (options.happened && key.parkedStep === null) {
    throw refused(
      `${shown} is not parked over a call, so no call can have happened: pass --did-not-happen or --failed. Nothing was changed.`,
    )
  }
  const resolution = resolutionOf(key, options)
  const about = key.parkedStep === null ? '' : ` over '${printable(key.parkedStep)}'`
  await agreed(
    world,
    options,
    `${shown} is parked${about} (${printable(key.reason ?? 'no reason was noted')}). Resolve it as ${resolution.as}?`,
  )
  const by = storableText(`${options.by ?? world.user}${options.note ? `: ${options.note}` : ''}`)
  const result = await operator.keyResolve(key, { resolution, by })
  if (result !== 'done') {
    throw refused(`${shown} has changed since it was shown. Look again: oncekey show ${nameOf(key)}. Nothing was changed.`)
  }
  const state = resolution.as === 'failed' ? 'failed' : 'pending'
  return {
    data: { id: key.id, tenant: key.tenant, was: 'parked', state, resolvedAs: resolution.as, step: key.parkedStep },
    lines: [`${shown} is ${state === 'failed' ? 'failed: every retry gets that answer' : 'pending: the next attempt continues'}.`],
  }
}

function checkWords({ happened, didNotHappen, failed, result, status, body }: ResolveOptions): void {
  if ([happened, didNotHappen, failed].filter(Boolean).length !== 1) {
    throw wrongUsage('Pass one of --happened, --did-not-happen and --failed.')
  }
  if (result !== undefined && !happened) throw wrongUsage('--result goes with --happened.')
  if ((status !== undefined || body !== undefined) && !failed) throw wrongUsage('--status and --body go with --failed.')
  for (const [name, text] of Object.entries({ '--result': result, '--body': body })) {
    if (text !== undefined && !isJson(text))
      throw wrongUsage(`${name} is not JSON: put strings in double quotes, and the whole value in single quotes.`)
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function resolutionOf(key: KeySummary, { happened, didNotHappen, result, status, body }: ResolveOptions): Resolution {
  // The text as given: parsing would change numbers past 2^53.
  if (happened) return { as: 'happened', result: result === undefined ? null : inAscii(result) }
  if (didNotHappen) return { as: 'did-not-happen' }
  // The key's own retention, counted from now: a client that retries within it gets the answer.
  const ms = key.expiresAt - key.createdAt
  return { as: 'failed', answer: failure(status, body), retention: { ms, from: 'completion', floorMs: 0 } }
}

function failure(status: number | undefined, body: string | undefined): Answer {
  if (body !== undefined) return reply(status ?? 500, Buffer.from(body), { 'content-type': 'application/json' })
  return status === undefined ? workFailed : reply(status)
}
