import { payloadSealedWith } from '../../core/sealing.js'
import { atDesk, type CommonOptions, type Desk, newCommand, type Report } from '../command.js'
import { findJob, type JobName, namesJob } from '../find-job.js'
import { jobStoryData } from '../job-data.js'
import { jobLines } from '../job-lines.js'
import type { Registered } from '../registered.js'
import { legibleJson, printable } from '../words.js'

interface JobsShowOptions extends CommonOptions, JobName {
  readonly payload?: true
}

export const jobsShow: Registered = (world, done) =>
  namesJob(newCommand('show', 'A job: where it stands, what it failed with, its group, and what to do.'), '<id>')
    .option('--payload', 'print the whole payload')
    .action(async (id: string, options: JobsShowOptions) => done(await atDesk(world, options, (desk) => told(desk, id, options))))

async function told(desk: Desk, id: string, options: JobsShowOptions): Promise<Report> {
  const story = await findJob(desk, id, options)
  const payload = options.payload ? ['', ...payloadLines(story.payload)] : []
  return { data: jobStoryData(story, { whole: options.payload === true }), lines: [...jobLines(story, desk.paint), ...payload] }
}

function payloadLines(payload: string): string[] {
  if (payloadSealedWith(payload) !== undefined) return ['The payload is sealed: only a process with the encryption keys can open it.']
  return [printable(legibleJson(payload))]
}
