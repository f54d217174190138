import { holderGone } from '../core/system-answers.js'
import type { KeyStory } from '../stores/postgres/queries/key-story.js'
import { legibleJson } from './words.js'

/** An event in the life of a key. Null where the time was not recorded. */
export interface Happening {
  readonly at: number | null
  /** The attempt number; null for what an operator or the system did between two. */
  readonly attempt: number | null
  readonly what: string
  /** The step it is about. */
  readonly step: string | null
  readonly detail: string | null
}

interface Noted extends Omit<Happening, 'attempt'> {
  readonly at: number
  readonly fence: number
}

export interface Timeline {
  readonly attempts: number
  /** Whether the trail is complete; if not, some events are inferred. */
  readonly trailKept: boolean
  readonly happenings: readonly Happening[]
}

const taking = new Set(['claimed', 'taken-over'])
const ending = new Set(['released', 'swept', 'complete', 'failed', 'parked'])
const byHand = new Set(['resolved', 'retried', 'released by hand'])
/** Concerns a job of the key: it begins and ends no attempt. */
const ofJobs = new Set(['job retried', 'job discarded'])
/** Written by the system, never by a holder. A note on who swept it may follow. */
const bySystem = ({ what, detail }: Noted) => ending.has(what) && detail?.startsWith(holderGone) === true

/**
 * The life of a key in order. Fences only rise, so a lower one came first: each fence is an attempt, or an operator's change that shut an
 * attempt out. An attempt that crashed recorded no end; it is inferred.
 */
export function timelineOf(story: KeyStory): Timeline {
  const { key, trail } = story
  const trailKept = trail.some(({ what, fence }) => what === 'claimed' && fence === 1)
  const noted = notedOf(story, trailKept)
  const jobNotes = trail.filter(({ what }) => ofJobs.has(what))
  const happenings: Happening[] = []
  let attempts = 0
  for (let fence = 1; fence <= key.fence; fence += 1) {
    const group = noted.filter((each) => each.fence === fence)
    const attempt = isAttempt(group, fence) ? attempts + 1 : null
    attempts = attempt ?? attempts
    happenings.push(...group.map(({ fence: _, ...each }) => ({ ...each, attempt })))
    if (fence === key.fence) happenings.push(...standing(story, group, attempt))
    else if (attempt !== null)
      happenings.push(
        ...left(
          group,
          attempt,
          noted.find((each) => each.fence === fence + 1),
        ),
      )
    happenings.push(
      ...jobNotes.filter((note) => note.fence === fence).map(({ at, what, detail }) => ({ at, attempt: null, what, step: null, detail })),
    )
  }
  return { attempts, trailKept, happenings: withoutRepeats(happenings) }

  function isAttempt(group: readonly Noted[], fence: number): boolean {
    if (group.some(({ what }) => taking.has(what))) return true
    if (group.some((each) => byHand.has(each.what) || bySystem(each))) return false
    // The system's end raises the fence too; without a trail only the reason shows it.
    return !(fence === key.fence && key.reason === holderGone && key.state !== 'processing')
  }

  /** How an attempt ended, if a later one exists. */
  function left(group: readonly Noted[], attempt: number, next: Noted | undefined): Happening[] {
    if (group.some(({ what }) => ending.has(what)) || next?.what === 'released by hand' || (next && bySystem(next))) return []
    const untold = group.length === 0
    const what = untold ? 'recorded nothing' : trailKept ? 'stopped without a word' : 'ended unfinished'
    return [{ at: null, attempt, what, step: null, detail: null }]
  }
}

/** Everything recorded, with its fence. */
function notedOf({ key, steps, trail }: KeyStory, trailKept: boolean): Noted[] {
  const recorded = steps.map(({ name, kind, result, fence, at }) => ({
    at,
    fence,
    what: kind as string,
    step: name,
    detail: result && legibleJson(result),
  }))
  // The trail notes the recovery point; the step has more detail.
  const told = (fence: number, step: string, kinds: readonly string[]) =>
    recorded.some((each) => each.fence === fence && each.step === step && kinds.includes(each.what))
  const audited = trail.flatMap(({ what, fence, at, detail }): Noted[] => {
    if (ofJobs.has(what)) return []
    if (what !== 'advanced' || detail === null) return [{ at, fence, what, step: null, detail }]
    const [, intent] = /^(.*)\?$/.exec(detail) ?? []
    const [, cleared] = /^(.*) \(not made\)$/.exec(detail) ?? []
    const kind = intent !== undefined ? 'intent' : cleared !== undefined ? 'cleared' : 'advanced'
    const step = intent ?? cleared ?? detail
    const kinds = kind === 'advanced' ? ['phase', 'call', 'refused'] : [kind]
    return told(fence, step, kinds) ? [] : [{ at, fence, what: kind, step, detail: null }]
  })
  const first: Noted[] = trailKept ? [] : [{ at: key.createdAt, fence: 1, what: 'claimed', step: null, detail: null }]
  const all = [...first, ...recorded, ...audited].sort((a, b) => a.fence - b.fence || rank(a) - rank(b) || a.at - b.at)
  return all.map((each, at) => ({ ...each, at: Math.max(each.at, all[at - 1]?.at ?? each.at) }))
}

/**
 * Records of one commit have times that differ by at most a millisecond, in any order. But a fence begins with a take and ends with an
 * end, and time does not go back.
 */
function rank({ what }: Noted): number {
  if (taking.has(what) || byHand.has(what)) return 0
  return ending.has(what) ? 2 : 1
}

/** The current state, unless the last record shows it. */
function standing({ key, now }: KeyStory, group: readonly Noted[], attempt: number | null): Happening[] {
  const said = group.at(-1)?.what
  const happening = (what: string, at: number | null, detail: string | null): Happening => ({ at, attempt, what, step: null, detail })
  if (key.state === 'processing') {
    const over = (key.leaseUntil ?? now) <= now
    return [over ? happening('lease ran out', key.leaseUntil, null) : happening('works on it', null, null)]
  }
  if (said !== undefined && (ending.has(said) || byHand.has(said))) return []
  return [happening(key.state === 'pending' ? 'released' : key.state, null, key.reason)]
}

/** A hundred attempts without records become one line. */
function withoutRepeats(happenings: readonly Happening[]): Happening[] {
  const kept: Happening[] = []
  for (const [index, each] of happenings.entries()) {
    const before = happenings[index - 1]
    if (each.what !== 'recorded nothing' || before?.what !== 'recorded nothing') kept.push(each)
    else kept.push({ ...(kept.pop() as Happening), detail: `attempts up to ${each.attempt} neither` })
  }
  return kept
}
