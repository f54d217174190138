import { Option } from 'commander'
import { postgresStore } from '../../stores/postgres/postgres-store.js'
import { agreed, atDesk, type ChangeOptions, type Desk, milliseconds, newCommand, type Report, wholeNumber } from '../command.js'
import type { Registered } from '../registered.js'
import { many } from '../words.js'

interface ReapOptions extends ChangeOptions {
  readonly limit?: number
  readonly batch: number
  readonly pause: number
}

export const reap: Registered = (world, done) =>
  newCommand('reap', 'Deletes expired keys and their steps, in batches. They already count as absent.')
    .option('--limit <count>', 'at most so many (default: all)', wholeNumber(1, 1_000_000_000))
    .option('--batch <count>', 'so many in one transaction', wholeNumber(1, 100_000), 1_000)
    .addOption(new Option('--pause <duration>', 'rest between two batches').argParser(milliseconds).default(50, '50ms'))
    .option('--yes', 'do it without asking')
    .action(async (options: ReapOptions) => done(await atDesk(world, options, (desk) => reaped(desk, options))))

async function reaped({ world, connection, operator, schema }: Desk, options: ReapOptions): Promise<Report> {
  const { limit = Number.POSITIVE_INFINITY, batch, pause } = options
  const { expired } = await operator.keysCount()
  const wanted = Math.min(expired.count, limit)
  if (wanted > 0) await agreed(world, options, `Delete ${many(wanted, 'expired key')}?`)
  const store = postgresStore(connection, { schema })
  let deleted = 0
  for (let more = wanted > 0; more; ) {
    const size = Math.min(batch, limit - deleted)
    const count = await store.keyReap({ limit: size })
    deleted += count
    if (world.progress) world.tell(`\r${many(deleted, 'key')} deleted`)
    more = count > 0 && deleted < limit
    if (more) await world.pause(pause)
  }
  if (world.progress && deleted > 0) world.tell('\r\x1b[K')
  return { data: { deleted }, lines: [`${many(deleted, 'expired key')} deleted.`] }
}
