import type { Answer } from '../core/answer.js'
import { sealedWith } from '../core/sealing.js'
import type { KeyStory } from '../stores/postgres/queries/key-story.js'
import { adviceFor } from './advice.js'
import { columns } from './columns.js'
import { type Paint, paintState } from './paint.js'
import { type Happening, timelineOf } from './timeline.js'
import { bytes, cut, lasting, many, moment, printable } from './words.js'

const narrowest = 80

/** The story of a key, for one screen of 80 columns and 24 lines, however wide its results are. */
export function storyLines(story: KeyStory, { paint, width = narrowest }: { paint: Paint; width?: number | undefined }): string[] {
  const { key, now } = story
  const { attempts, trailKept, happenings } = timelineOf(story)
  const { says, command } = adviceFor(story)
  const labelled = (label: string, text: string) =>
    `${paint('dim', label.padEnd(9))} ${cut(printable(text), Math.max(width, narrowest) - 10)}`
  const state = key.state === 'processing' && (key.leaseUntil ?? now) <= now ? 'processing, but its lease is over' : key.state
  return [
    `${paint('dim', 'key'.padEnd(9))} ${paint('bold', printable(key.key))}  ${paintState(paint, key.state, state)}`,
    labelled('of', `tenant ${key.tenant}, scope ${key.scope}`),
    labelled('id', key.id),
    labelled('created', `${moment(key.createdAt)}, ${lasting(now - key.createdAt)} ago; ${expiry(story)}`),
    labelled('attempts', attemptsText(attempts, story)),
    '',
    ...happeningLines(happenings, Math.max(width, narrowest), paint),
    ...(trailKept ? [] : [paint('dim', '(no trail is kept: what attempts did not record is not known)')]),
    '',
    ...(key.reason === null ? [] : [labelled('reason', key.reason)]),
    ...(story.jobs.length === 0 ? [] : [labelled('jobs', `${many(story.jobs.length, 'job')} not delivered: ${jobNames(story)}`)]),
    labelled('answer', answerText(story.answer)),
    labelled('next', says),
    ...command.map((line) => `${''.padEnd(10)}${paint('bold', line)}`),
  ]
}

function expiry({ key, now }: KeyStory): string {
  if (key.state !== 'complete' && key.state !== 'failed') return 'unfinished keys do not expire'
  if (!Number.isFinite(key.expiresAt)) return 'never expires'
  return key.expiresAt <= now ? `expired ${lasting(now - key.expiresAt)} ago` : `expires in ${lasting(key.expiresAt - now)}`
}

function attemptsText(attempts: number, { key, now }: KeyStory): string {
  const workers = key.attempts > 0 ? ` (${key.attempts} by workers)` : ''
  const lease =
    key.leaseUntil === null ? '' : `, lease ${key.leaseUntil <= now ? 'over for' : 'for another'} ${lasting(key.leaseUntil - now)}`
  return `${attempts}${workers}, fence ${key.fence}, after a failure: ${key.afterFailure}${key.async ? ', workers only' : ''}${lease}`
}

const jobNames = ({ jobs }: KeyStory) => [...new Set(jobs.map(({ name }) => name))].join(', ')

function happeningLines(happenings: readonly Happening[], width: number, paint: Paint): string[] {
  const known = happenings.flatMap(({ at }) => (at === null ? [] : [at]))
  const sameDay = new Set(known.map((at) => moment(at).slice(0, 10))).size <= 1
  let before: number | null = null
  const rows = happenings.map(({ at, attempt, what, step, detail }) => {
    const after = at === null || before === null ? '' : `+${lasting(Math.max(0, at - before))}`
    before = at ?? before
    const time =
      at === null
        ? ''
        : new Date(at)
            .toISOString()
            .slice(sameDay ? 11 : 5, 23)
            .replace('T', ' ')
    const name = step === null ? words(what) : `${words(what)} ${step}`
    return [time, after, attempt === null ? '-' : String(attempt), printable(detail === null ? name : `${name}: ${detail}`)]
  })
  const [head = '', ...lines] = columns([['TIME', 'AFTER', 'TRY', 'WHAT'], ...rows], { right: [1] }).map((line) => cut(line, width))
  return [paint('dim', head), ...lines]
}

const words = (what: string) =>
  what === 'taken-over' ? 'taken over' : what === 'intent' ? 'about to call' : what === 'cleared' ? 'not made:' : what

function answerText(answer: Answer | null): string {
  if (!answer) return 'none yet'
  const { status, headers, body, omittedBytes } = answer
  const sealed = sealedWith(answer)
  if (sealed !== undefined) return `${status}, sealed with the encryption key ${sealed}, ${bytes(body.length)}`
  if (omittedBytes !== undefined) return `${status}, ${many(headers.length, 'header')}; its body of ${bytes(omittedBytes)} was not kept`
  const [firstLine = ''] = Buffer.from(body).toString('utf8').split('\n')
  return `${status}, ${many(headers.length, 'header')}, ${bytes(body.length)}${body.length > 0 ? `: ${firstLine}` : ''}`
}
