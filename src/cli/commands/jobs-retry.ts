import { atDesk } from '../command.js'
import { changesDeadJobs, type DeadJobsOptions, resolved, type Word } from '../dead-jobs.js'
import type { Registered } from '../registered.js'

const word: Word = {
  as: 'retry',
  done: 'retried',
  question: 'Deliver again?',
  outcome: ['is due now, with all its attempts', 'are due now, with all their attempts'],
}

export const jobsRetry: Registered = (world, done) =>
  changesDeadJobs('retry', 'Lets dead jobs be delivered again, at their old places in their groups.').action(
    async (id: string | undefined, options: DeadJobsOptions) =>
      done(await atDesk(world, options, (desk) => resolved(desk, id, options, word))),
  )
