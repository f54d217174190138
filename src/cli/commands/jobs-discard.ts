import { atDesk } from '../command.js'
import { changesDeadJobs, type DeadJobsOptions, resolved, type Word } from '../dead-jobs.js'
import type { Registered } from '../registered.js'

const word: Word = {
  as: 'discard',
  done: 'discarded',
  question: 'Delete undelivered?',
  outcome: ['is deleted undelivered', 'are deleted undelivered'],
}

export const jobsDiscard: Registered = (world, done) =>
  changesDeadJobs('discard', 'Deletes dead jobs: they are never delivered, and their groups continue.').action(
    async (id: string | undefined, options: DeadJobsOptions) =>
      done(await atDesk(world, options, (desk) => resolved(desk, id, options, word))),
  )
