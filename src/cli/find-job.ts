import { Argument, type Command } from 'commander'
import { isUuid } from '../core/key.js'
import type { JobRef } from '../core/store.js'
import type { JobStory } from '../stores/postgres/queries/job-story.js'
import type { Desk } from './command.js'
import { notFound, wrongUsage } from './exit-codes.js'
import { printable, quoted } from './words.js'

export interface JobName {
  readonly tenant?: string
}

/** The most jobs listed that share an id, which only jobs of different services do. */
const listed = 20

export function namesJob(command: Command, argument: '<id>' | '[id]'): Command {
  return command
    .addArgument(new Argument(argument, 'the id of the job, as oncekey jobs shows it'))
    .option('--tenant <tenant>', 'whose job it is; without it the whole table is read')
}

/** Exactly one job, as it is now. */
export async function findJob({ operator }: Desk, id: string, { tenant }: JobName): Promise<JobStory> {
  if (!isUuid(id)) throw wrongUsage(`${printable(id)} is not the id of a job: that is a UUID, as oncekey jobs shows it.`)
  const place = tenant === undefined ? await placeOf() : { tenant, id }
  const story = place && (await operator.jobStory(place))
  if (story) return story
  throw notFound(
    `There is no job ${id}${tenant === undefined ? '' : ` of ${printable(tenant)}`}: it was delivered or discarded, or never staged.`,
  )

  async function placeOf(): Promise<JobRef | undefined> {
    const { jobs } = await operator.jobsList({ id, limit: listed })
    if (jobs.length <= 1) return jobs[0]
    throw notFound(`${jobs.length} jobs match. Which one?\n${jobs.map((job) => `  ${jobNameOf(job)}`).join('\n')}`)
  }
}

/** The job's arguments on a command line. */
export function jobNameOf({ tenant, id }: JobRef): string {
  return printable(tenant) !== tenant || tenant.startsWith('-') ? id : `--tenant ${quoted(tenant)} ${id}`
}
