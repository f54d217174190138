import { payloadSealedWith } from '../core/sealing.js'
import type { JobStory } from '../stores/postgres/queries/job-story.js'
import type { JobSummary } from '../stores/postgres/queries/job-summary.js'
import { iso } from './words.js'

/** A job as `--json` shows it. */
export function jobData(job: JobSummary) {
  return {
    tenant: job.tenant,
    id: job.id,
    name: job.name,
    group: job.group,
    state: job.state,
    attempts: job.attempts,
    error: job.error,
    ageMs: job.now - job.stagedAt,
    stagedAt: iso(job.stagedAt),
    /** Null: staged before the relay existed. */
    dueAt: iso(job.dueAt),
    leaseUntil: iso(job.leaseUntil),
    deadAt: iso(job.deadAt),
  }
}

/** The payload only on request: it may be large or private. */
export function jobStoryData({ job, key, others, payload }: JobStory, { whole }: { whole: boolean }) {
  const sealedWith = payloadSealedWith(payload) ?? null
  return {
    now: iso(job.now),
    job: jobData(job),
    key,
    othersOfGroup: others,
    payload: { bytes: Buffer.byteLength(payload), sealedWith, ...(whole ? { text: payload } : {}) },
  }
}
