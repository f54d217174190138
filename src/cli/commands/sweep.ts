import { storableText } from '../../core/storable-text.js'
import { agreed, atDesk, type ChangeOptions, type Desk, newChange, noteOf, type Report } from '../command.js'
import type { Registered } from '../registered.js'
import { many } from '../words.js'

export const sweep: Registered = (world, done) =>
  newChange('sweep', 'Resets keys whose holder is gone, as each key says: rerun, store or park.')
    .addHelpText('after', '\nIt reads the whole table. Locked keys are left for the next run.')
    .action(async (options: ChangeOptions) => done(await atDesk(world, options, (desk) => swept(desk, options))))

async function swept({ world, operator }: Desk, options: ChangeOptions): Promise<Report> {
  const { stuck } = await operator.keysCount()
  if (stuck.count > 0) await agreed(world, options, `Sweep ${many(stuck.count, 'key')} whose lease is over?`)
  const ended = stuck.count > 0 ? await operator.keysTakeBack({ note: storableText(noteOf(world, 'swept', options)) }) : []
  const count = (state: string) => ended.filter(({ to }) => to === state).length
  const counts = { pending: count('pending'), failed: count('failed'), parked: count('parked') }
  const { pending, failed, parked } = counts
  return { data: counts, lines: [`${many(pending, 'key')} may run again, ${failed} failed, ${parked} parked: outcome unknown.`] }
}
