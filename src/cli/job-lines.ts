import { payloadSealedWith } from '../core/sealing.js'
import type { JobStory } from '../stores/postgres/queries/job-story.js'
import type { JobSummary } from '../stores/postgres/queries/job-summary.js'
import type { Advice } from './advice.js'
import { jobNameOf } from './find-job.js'
import { type Paint, paintState } from './paint.js'
import { bytes, lasting, many, moment, printable, quoted } from './words.js'

export function jobLines(story: JobStory, paint: Paint): string[] {
  const { job, key, payload } = story
  const { says, command } = jobAdvice(story)
  const sealedWith = payloadSealedWith(payload)
  const labelled = (label: string, text: string) => `${paint('dim', label.padEnd(9))} ${printable(text)}`
  return [
    `${paint('dim', 'job'.padEnd(9))} ${paint('bold', printable(job.name))}  ${paintState(paint, job.state)}`,
    labelled('id', job.id),
    labelled('of', `tenant ${job.tenant}, ${key === null ? 'key forgotten' : `scope ${key.scope}, key ${key.key}`}`),
    labelled('staged', `${moment(job.stagedAt)}, ${lasting(job.now - job.stagedAt)} ago`),
    labelled('attempts', `${job.attempts}${standing(job)}`),
    ...(job.group === null ? [] : [labelled('group', `${job.group}: ${othersText(story)}`)]),
    ...(job.error === null ? [] : [labelled('error', job.error)]),
    labelled(
      'payload',
      `${bytes(Buffer.byteLength(payload))}${sealedWith === undefined ? '' : `, sealed with the encryption key ${sealedWith}`}`,
    ),
    labelled('next', says),
    ...command.map((line) => `${''.padEnd(10)}${paint('bold', line)}`),
  ]
}

function standing({ state, now, deadAt, leaseUntil, dueAt }: JobSummary): string {
  if (state === 'dead') return `, dead for ${lasting(now - (deadAt ?? now))}`
  if (state === 'held') return `, a relay has it for another ${lasting((leaseUntil ?? now) - now)} at most`
  if (state === 'delayed') return `, due in ${lasting((dueAt ?? now) - now)}`
  return leaseUntil === null ? '' : `, the last relay vanished`
}

function othersText({ others: { before, behind, dead } }: JobStory): string {
  return `${before.toLocaleString('en')} before it, ${behind.toLocaleString('en')} behind it, ${many(dead, 'other')} dead`
}

/** What to do about a job. */
function jobAdvice({ job, others }: JobStory): Advice {
  const name = jobNameOf(job)
  switch (job.state) {
    case 'dead': {
      const held = others.behind > 0 ? ` ${many(others.behind, 'job')} of its group may wait for it.` : ''
      const says = `Fix the cause, then retry it, or discard it.${held}`
      return { says, command: [`oncekey jobs retry ${name}`, `oncekey jobs discard ${name}`] }
    }
    case 'held':
      return { says: 'Nothing to do: if its relay is gone, another one takes it when the lease ends.', command: [] }
    case 'delayed':
      return { says: 'Nothing to do: a relay takes it when it is due.', command: [] }
    case 'waiting':
      return waiting()
  }

  function waiting(): Advice {
    const group = job.group ?? ''
    if (others.dead > 0 && printable(group) === group)
      return { says: 'A dead job may hold its group:', command: [`oncekey jobs --state dead --group ${quoted(group)}`] }
    if (others.before > 0) return { says: 'It waits for those before it in its group.', command: [] }
    return { says: `It is due: check that a relay with a sink for ${printable(job.name)} runs.`, command: [] }
  }
}
