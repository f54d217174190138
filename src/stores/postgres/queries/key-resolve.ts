import type { KeyResolve, ResolveResult, StepRecord } from '../../../core/store.js'
import type { Bounded } from '../bounded.js'
import type { Tables } from '../tables.js'
import { byHand, freeKey, thisKey, whatBecame } from './free-key.js'
import { expiryAtFinish } from './key-finish.js'
import { answerValues, retentionValue, waitsAnewUntil } from './key-row.js'
import type { SeenKey } from './key-summary.js'
import { together } from './together.js'

/**
 * Carries out a person's word on a parked key, if the key is still parked as it was seen: incarnation and fence must be the same.
 * The fence rises, so that no earlier holder can write. It is always noted in the trail, whether one is kept or not.
 */
export function keyResolve(tables: Tables) {
  const audited = { ...tables, audit: tables.auditTable }
  const parked = `key.incarnation = $3::uuid and key.fence = $4 and key.state = 'parked'`
  const atStep = `${parked} and key.parked_step is not distinct from $6`
  const noted = { what: `'resolved'`, detail: 'reason' }
  const goOn = together(audited, {
    before: freeKey(tables, atStep),
    write: `
      update ${tables.keys} as key
      set state = 'pending', fence = fence + 1, reason = $5, parked_step = null, recovery_point = coalesce($7, recovery_point),
          waiting = true, due_at = statement_timestamp(), attempts = 0,
          expires_at = ${waitsAnewUntil},
          answer_status = null, answer_headers = null, answer_body = null, answer_omitted_bytes = null
      from free where ${thisKey}
      returning key.tenant, key.id, key.incarnation, key.fence, key.reason`,
    parameters: 7,
    noted,
    returned: whatBecame(tables, atStep),
  })
  const fail = together(audited, {
    before: freeKey(tables, parked),
    write: `
      update ${tables.keys} as key
      set state = 'failed', fence = fence + 1, reason = $5, parked_step = null,
          answer_status = $6, answer_headers = $7, answer_body = $8::bytea, answer_omitted_bytes = $9,
          expires_at = ${expiryAtFinish('$10', '$11', '$12')}
      from free where ${thisKey}
      returning key.tenant, key.id, key.incarnation, key.fence, key.reason`,
    parameters: 12,
    noted,
    returned: whatBecame(tables, parked),
  })
  const parkedStep = `
    select parked_step, (select count(*)::integer from ${tables.steps} as step
                         where step.tenant = key.tenant and step.key_id = key.id and step.incarnation = key.incarnation) as recorded
    from ${tables.keys} as key where ${thisKey} and ${parked}`

  return async (db: Bounded, seen: SeenKey, { resolution, by }: Pick<KeyResolve, 'resolution' | 'by'>): Promise<ResolveResult> => {
    const held = [seen.tenant, seen.id, seen.incarnation, seen.fence]
    const reason = `resolved as ${resolution.as} by ${by}`
    if (resolution.as === 'failed') {
      const { ms, from, floorMs } = resolution.retention
      const values = [...answerValues(resolution.answer), from, retentionValue(ms), retentionValue(floorMs)]
      const failing = fail([])
      const isDone = await byHand(db, () => db.query(failing.text, [...held, reason, ...values, ...failing.values]))
      return isDone ? 'done' : 'not-parked'
    }
    const [row] = await db.query(parkedStep, held)
    if (!row) return 'not-parked'
    const name = row.parked_step as string | null
    if (name === null && resolution.as === 'happened') return 'no-step'
    const position = row.recorded as number
    const step: StepRecord[] = name === null ? [] : [{ name, position, ...outcomeOf(resolution) }]
    const recoveryPoint = resolution.as === 'happened' ? name : null
    const { text, values } = goOn([{ id: seen.id, steps: step, jobs: [] }])
    return (await byHand(db, () => db.query(text, [...held, reason, name, recoveryPoint, ...values]))) ? 'done' : 'not-parked'
  }
}

function outcomeOf(resolution: { as: 'happened'; result: string | null } | { as: 'did-not-happen' }): Pick<StepRecord, 'kind' | 'result'> {
  return resolution.as === 'happened' ? { kind: 'call', result: resolution.result } : { kind: 'cleared', result: null }
}
