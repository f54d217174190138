import type { Answer } from '../../core/answer.js'
import { sealedWith } from '../../core/sealing.js'
import { atDesk, type CommonOptions, type Desk, newCommand, type Report } from '../command.js'
import { findKey, type KeyName, namesKey } from '../find-key.js'
import { storyData } from '../key-data.js'
import type { Registered } from '../registered.js'
import { storyLines } from '../story-lines.js'
import { printable } from '../words.js'

interface ShowOptions extends CommonOptions, KeyName {
  readonly answer?: true
}

export const show: Registered = (world, done) =>
  namesKey(newCommand('show', 'The story of a key: attempts, steps with their times, the answer, and what to do.'))
    .option('--answer', 'print the whole stored answer: status, headers, body')
    .action(async (key: string | undefined, options: ShowOptions) => done(await atDesk(world, options, (desk) => told(desk, key, options))))

async function told(desk: Desk, key: string | undefined, options: ShowOptions): Promise<Report> {
  const story = await findKey(desk, key, options)
  const lines = storyLines(story, { paint: desk.paint, width: desk.world.columns })
  const answer = options.answer && story.answer ? ['', ...answerLines(story.answer)] : []
  return { data: storyData(story, { whole: options.answer === true }), lines: [...lines, ...answer] }
}

function answerLines(answer: Answer): string[] {
  if (sealedWith(answer) !== undefined) return ['The answer is sealed: only a process with the encryption keys can open it.']
  const { status, headers, body } = answer
  const text = Buffer.from(body).toString('utf8')
  return [String(status), ...headers.map(([name, value]) => printable(`${name}: ${value}`)), '', ...text.split('\n').map(printable)]
}
