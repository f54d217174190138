import { sealedWith } from '../core/sealing.js'
import type { KeyStory } from '../stores/postgres/queries/key-story.js'
import type { KeySummary } from '../stores/postgres/queries/key-summary.js'
import { timelineOf } from './timeline.js'
import { iso } from './words.js'

/** A key as `--json` shows it. */
export function keyData(key: KeySummary) {
  return {
    tenant: key.tenant,
    scope: key.scope,
    key: key.key,
    id: key.id,
    state: key.state,
    incarnation: key.incarnation,
    fence: key.fence,
    workerAttempts: key.attempts,
    afterFailure: key.afterFailure,
    async: key.async,
    recoveryPoint: key.recoveryPoint,
    parkedStep: key.parkedStep,
    reason: key.reason,
    answerStatus: key.answerStatus,
    createdAt: iso(key.createdAt),
    /** Null: never. Applies only once the key is complete or failed. */
    expiresAt: iso(key.expiresAt),
    leaseUntil: iso(key.leaseUntil),
    dueAt: iso(key.dueAt),
  }
}

export function storyData(story: KeyStory, { whole }: { whole: boolean }) {
  const { attempts, trailKept, happenings } = timelineOf(story)
  return {
    now: iso(story.now),
    key: keyData(story.key),
    attempts,
    trailKept,
    timeline: happenings.map((each) => ({ ...each, at: iso(each.at) })),
    steps: story.steps.map(({ at, ...step }) => ({ ...step, at: iso(at) })),
    jobs: story.jobs.map(({ at, ...job }) => ({ ...job, stagedAt: iso(at) })),
    requestBytes: story.requestBytes,
    answer: answerData(story, whole),
  }
}

/** The body only on request: it may be large or private. */
function answerData({ answer }: KeyStory, whole: boolean) {
  if (!answer) return null
  const { status, headers, body, omittedBytes } = answer
  const shown = whole ? { headers, bodyBase64: Buffer.from(body).toString('base64') } : {}
  return {
    status,
    headerCount: headers.length,
    bodyBytes: body.length,
    omittedBytes: omittedBytes ?? null,
    sealedWith: sealedWith(answer) ?? null,
    ...shown,
  }
}
