import type { JobSummary } from '../stores/postgres/queries/job-summary.js'
import type { JobsResolveByHand } from '../stores/postgres/queries/jobs-resolve-by-hand.js'
import { agreed, type ChangeOptions, type Desk, newChange, noteOf, type Report, wholeNumber } from './command.js'
import { refused, wrongUsage } from './exit-codes.js'
import { findJob, type JobName, jobNameOf, namesJob } from './find-job.js'
import { lasting, many, printable } from './words.js'

export interface DeadJobsOptions extends ChangeOptions, JobName {
  readonly all?: true
  readonly name?: string
  readonly limit: number
}

/** An operator's decision on dead jobs, and the words for it. */
export interface Word {
  readonly as: JobsResolveByHand['as']
  readonly done: string
  readonly question: string
  /** The result for one job, and for several. */
  readonly outcome: readonly [one: string, several: string]
}

export function changesDeadJobs(name: string, summary: string) {
  return namesJob(newChange(name, summary), '[id]')
    .option('--all', 'all dead jobs of a --name instead of one, and of a --tenant if one is given')
    .option('--name <name>', 'with --all: the name they were staged with')
    .option('--limit <count>', 'with --all: at most so many, the oldest first', wholeNumber(1, 10_000), 1_000)
}

export async function resolved(desk: Desk, id: string | undefined, options: DeadJobsOptions, word: Word): Promise<Report> {
  if ((id === undefined) === (options.all === undefined)) throw wrongUsage('Pass the id of a job, or --all and a --name.')
  if ((options.name === undefined) !== (options.all === undefined)) throw wrongUsage('--all and --name belong together.')
  return id === undefined ? resolvedAll(desk, options, word) : resolvedOne(desk, id, options, word)
}

async function resolvedOne(desk: Desk, id: string, options: DeadJobsOptions, { as, done, question, outcome }: Word): Promise<Report> {
  const { world, operator } = desk
  const { job } = await findJob(desk, id, options)
  const shown = `${printable(job.name)} ${job.id}`
  if (job.state !== 'dead') throw refused(`${shown} is ${job.state}: ${problemOf(job)} Nothing was changed.`)
  await agreed(world, options, `${shown} is dead${job.error ? ` (${printable(job.error)})` : ''}. ${question}`)
  const count = await operator.jobsResolve([job], { as, note: noteOf(world, done, options) })
  if (count === 0)
    throw refused(`${shown} has changed since it was shown. Look again: oncekey jobs show ${jobNameOf(job)}. Nothing was changed.`)
  return {
    data: { id: job.id, tenant: job.tenant, was: job.state, state: as === 'retry' ? 'waiting' : 'discarded' },
    lines: [`${shown} ${outcome[0]}.`],
  }
}

/** Resolves exactly the jobs counted before the question: more may die while it stands. */
async function resolvedAll({ world, operator }: Desk, options: DeadJobsOptions, { as, done, question, outcome }: Word): Promise<Report> {
  const { name, tenant, limit } = options
  const { jobs, count } = await operator.jobsList({ state: 'dead', name, tenant, limit })
  const some = count > jobs.length ? `, the first of ${count.toLocaleString('en')}` : ''
  const said = `${many(jobs.length, 'dead job')} named ${printable(name ?? '')}${some}`
  if (jobs.length > 0) await agreed(world, options, `${said}. ${question}`)
  const resolvedCount = jobs.length === 0 ? 0 : await operator.jobsResolve(jobs, { as, note: noteOf(world, done, options) })
  const changed = jobs.length - resolvedCount
  const left = count - jobs.length
  const rest = [
    ...(changed > 0 ? [`${changed.toLocaleString('en')} had changed since they were counted, and were skipped.`] : []),
    ...(left > 0 ? [`${left.toLocaleString('en')} more are left: run it again.`] : []),
  ]
  return {
    data: { done: resolvedCount, changed, left },
    lines: [`${many(resolvedCount, 'job')} ${outcome[resolvedCount === 1 ? 0 : 1]}.`, ...rest],
  }
}

/** Why a job that is not dead needs no decision. */
function problemOf({ state, now, leaseUntil, dueAt }: JobSummary): string {
  if (state === 'held') return `a relay has it for another ${lasting((leaseUntil ?? now) - now)} at most.`
  if (state === 'delayed') return `a relay takes it by itself in ${lasting((dueAt ?? now) - now)}.`
  return 'a relay takes it by itself.'
}
