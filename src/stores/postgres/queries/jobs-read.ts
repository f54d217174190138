import type { JobPayload, TakenRef } from '../../../core/store.js'
import { arrayLiteral } from '../batching/array-literal.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { sentArray } from './job-row.js'

/** Reads payloads of jobs that are still held under the token of their take. It writes nothing, so that a process which is frozen while it receives them holds up no other. */
export function jobsRead({ jobs }: Tables) {
  const text = `
    select job.tenant, job.id::text as id, job.payload
    from unnest(${sentArray('$1', 'text')}, ${sentArray('$2', 'uuid')}, ${sentArray('$3', 'uuid')}) as wanted (tenant, id, token)
    join ${jobs} as job on job.tenant = wanted.tenant and job.id = wanted.id and job.token = wanted.token`

  return async (db: Queryable, wanted: readonly TakenRef[]): Promise<(JobPayload | null)[]> => {
    const values = [
      arrayLiteral(wanted.map(({ tenant }) => tenant)),
      arrayLiteral(wanted.map(({ id }) => id)),
      arrayLiteral(wanted.map(({ token }) => token)),
    ]
    const rows = await db.query(text, values, { often: true })
    const found = new Map(rows.map(({ tenant, id, payload }) => [`${tenant} ${id}`, payload as string]))
    return wanted.map(({ tenant, id }) => {
      const payload = found.get(`${tenant} ${id}`)
      return payload === undefined ? null : { payload }
    })
  }
}
