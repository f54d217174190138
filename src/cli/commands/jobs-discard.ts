import { atDesk } from '../command.js'
import { changesDeadJobs, type DeadJobsOptions, resolved, type Word } from '../dead-jobs.js'
import type { Registered } from '../registered.js'

const word: Word = {
  as: 'discard',
  done: 'discarded',
  question: 'Delete, and never deliver?',
  outcome: ['is deleted, and is never delivered', 'are deleted, and are never delivered'],
}

export const jobsDiscard: Registered = (world, done) =>
  changesDeadJobs('discard', 'Deletes dead jobs: they are never delivered, and their groups go on.').action(
    async (id: string | undefined, options: DeadJobsOptions) =>
      done(await atDesk(world, options, (desk) => resolved(desk, id, options, word))),
  )
