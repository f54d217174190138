import { isStoreTrouble, type OncekeyError } from '../core/errors.js'
import type { JobPayload, OutboxStore, TakenRef } from '../core/store.js'

/**
 * Payloads that did not come with their take. One that cannot be read fails alone. Null: not to be delivered now, because the store is
 * unavailable or another relay holds the job.
 */
export async function readPayloads(outbox: OutboxStore, jobs: readonly TakenRef[]): Promise<readonly (JobPayload | null)[]> {
  try {
    return await outbox.jobsRead({ jobs })
  } catch (error) {
    if (isStoreTrouble(error)) return jobs.map(() => null)
    if (jobs.length === 1) return [{ payload: '', unreadable: error as OncekeyError }]
    const each: (JobPayload | null)[] = []
    for (const job of jobs) each.push(...(await readPayloads(outbox, [job])))
    return each
  }
}
