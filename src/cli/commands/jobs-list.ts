import { Option } from 'commander'
import { type JobState, jobStates } from '../../stores/postgres/queries/job-summary.js'
import { columns } from '../columns.js'
import { atDesk, type CommonOptions, type Desk, milliseconds, newCommand, type Report, wholeNumber } from '../command.js'
import { jobData } from '../job-data.js'
import type { Registered } from '../registered.js'
import { cut, lasting, printable } from '../words.js'

interface JobsListOptions extends CommonOptions {
  readonly state?: JobState
  readonly tenant?: string
  readonly name?: string
  readonly group?: string
  readonly olderThan?: number
  readonly limit: number
}

export const jobsList: Registered = (world, done) =>
  newCommand('list', 'Jobs that are not delivered, the oldest first.')
    .addOption(
      new Option('--state <state>', 'only these; held: a relay has it, delayed: not due yet, dead: failed for good').choices(
        Object.keys(jobStates),
      ),
    )
    .option('--tenant <tenant>', 'only those of this tenant')
    .option('--name <name>', 'only those that were staged with this name')
    .option('--group <group>', 'only those of this group')
    .option('--older-than <duration>', 'only those staged at least that long ago, such as 5m', milliseconds)
    .option('--limit <count>', 'at most so many', wholeNumber(1, 10_000), 20)
    .addHelpText('after', '\nIt reads the whole table, except with --state dead.')
    .action(async (options: JobsListOptions) => done(await atDesk(world, options, (desk) => listed(desk, options))))

async function listed({ operator }: Desk, options: JobsListOptions): Promise<Report> {
  const { state, tenant, name, group, olderThan, limit } = options
  const { jobs, count } = await operator.jobsList({ state, tenant, name, group, olderThanMs: olderThan, limit })
  const rows = jobs.map((job) => [
    job.state,
    lasting(job.now - job.stagedAt),
    String(job.attempts),
    job.id,
    printable(job.tenant),
    printable(job.name),
    printable(job.group ?? '-'),
    cut(printable(job.error ?? ''), 60),
  ])
  const head = ['STATE', 'AGE', 'TRIES', 'ID', 'TENANT', 'NAME', 'GROUP', 'LAST ERROR']
  const more = count > jobs.length ? [`(the first ${limit} of ${count.toLocaleString('en')}: --limit shows more)`] : []
  return {
    data: { count, jobs: jobs.map(jobData) },
    lines: count === 0 ? ['No such jobs.'] : [...columns([head, ...rows], { right: [1, 2] }), ...more],
  }
}
