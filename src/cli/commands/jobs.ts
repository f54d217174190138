import { Command } from 'commander'
import type { Registered } from '../registered.js'
import { jobsDiscard } from './jobs-discard.js'
import { jobsList } from './jobs-list.js'
import { jobsRetry } from './jobs-retry.js'
import { jobsShow } from './jobs-show.js'

export const jobs: Registered = (world, done) =>
  new Command('jobs')
    .description('The outbox: undelivered jobs; retries or discards dead ones.')
    .addCommand(jobsList(world, done), { isDefault: true })
    .addCommand(jobsShow(world, done))
    .addCommand(jobsRetry(world, done))
    .addCommand(jobsDiscard(world, done))
    .helpCommand('help [command]', 'print the help of a command')
    .addHelpText('after', '\nWithout a command it lists them: oncekey jobs --state dead.')
