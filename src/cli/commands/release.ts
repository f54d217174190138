import type { KeyStory } from '../../stores/postgres/queries/key-story.js'
import { agreed, atDesk, type ChangeOptions, type Desk, newChange, noteOf, type Report } from '../command.js'
import { refused } from '../exit-codes.js'
import { findKey, type KeyName, nameOf, namesKey } from '../find-key.js'
import type { Registered } from '../registered.js'
import { lasting, printable } from '../words.js'

interface ReleaseOptions extends ChangeOptions, KeyName {
  readonly force?: true
  readonly forceRerun?: true
}

export const release: Registered = (world, done) =>
  namesKey(newChange('release', 'Takes a key from its holder: it waits again, at its last recovery point.'))
    .option('--force', 'even if its lease is not over: the holder can store nothing more')
    .option('--force-rerun', "even if its author said 'store' or 'park': it will run again")
    .action(async (key: string | undefined, options: ReleaseOptions) =>
      done(await atDesk(world, options, (desk) => released(desk, key, options))),
    )

async function released(desk: Desk, name: string | undefined, options: ReleaseOptions): Promise<Report> {
  const { world, operator } = desk
  const story = await findKey(desk, name, options)
  const { key } = story
  const shown = printable(key.key)
  const problem = problemOf(story, options)
  if (problem) throw refused(`${shown} ${problem} Nothing was changed.`)
  await agreed(world, options, `${shown} is held by attempt ${key.fence}, ${leaseText(story)}. Release it?`)
  const done = await operator.keyReleaseByHand(key, {
    note: noteOf(world, 'released', options),
    fromLiveHolder: options.force === true,
    rerun: options.forceRerun === true,
  })
  if (!done) throw refused(`${shown} has changed since it was shown. Look again: oncekey show ${nameOf(key)}. Nothing was changed.`)
  return {
    data: { id: key.id, tenant: key.tenant, was: key.state, state: 'pending', fence: key.fence + 1 },
    lines: [`${shown} waits again: the next retry of its client, or a worker, resumes after ${recovery(story)}.`],
  }
}

const recovery = ({ key }: KeyStory) => (key.recoveryPoint === null ? 'its start' : `'${printable(key.recoveryPoint)}'`)

const leaseLeftMs = ({ key, now }: KeyStory) => (key.leaseUntil ?? now) - now

function leaseText(story: KeyStory): string {
  const ms = leaseLeftMs(story)
  return ms > 0 ? `whose lease lasts another ${lasting(ms)}` : `whose lease ended ${lasting(ms)} ago`
}

/** Why a key cannot be released; null if it can. */
function problemOf(story: KeyStory, { force, forceRerun }: ReleaseOptions): string | null {
  const { key } = story
  if (key.state !== 'processing') return `is ${key.state}: it has no holder, so there is nothing to release.`
  if (leaseLeftMs(story) > 0 && !force) {
    return `is in progress: its lease lasts another ${lasting(leaseLeftMs(story))}. Wait, or pass --force: the holder can then store nothing more, but calls it has made may take effect.`
  }
  if (key.afterFailure !== 'rerun' && !forceRerun) {
    return `must not simply run again: its author said '${key.afterFailure}', because its outcome is unknown. oncekey sweep will ${key.afterFailure} it; --force-rerun runs it again, if you know that it did nothing.`
  }
  return null
}
