import { Option } from 'commander'
import { type KeyKind, keyKinds } from '../../stores/postgres/queries/keys-list.js'
import { columns } from '../columns.js'
import { atDesk, type CommonOptions, type Desk, milliseconds, newCommand, type Report, wholeNumber } from '../command.js'
import { keyData } from '../key-data.js'
import type { Registered } from '../registered.js'
import { cut, moment, printable } from '../words.js'

interface ListOptions extends CommonOptions {
  readonly state?: KeyKind
  readonly tenant?: string
  readonly scope?: string
  readonly olderThan?: number
  readonly oldest?: true
  readonly limit: number
}

export const list: Registered = (world, done) =>
  newCommand('list', 'Keys, the newest first.')
    .addOption(
      new Option('--state <state>', 'only these; stuck: the lease is over, overdue: waiting and due').choices(Object.keys(keyKinds)),
    )
    .option('--tenant <tenant>', 'only those of this tenant')
    .option('--scope <scope>', 'only those of this operation or endpoint')
    .option('--older-than <duration>', 'only those created at least that long ago, such as 5m', milliseconds)
    .option('--oldest', 'the oldest first')
    .option('--limit <count>', 'at most so many', wholeNumber(1, 10_000), 20)
    .addHelpText('after', '\nIt reads the whole table: there is no index for it.')
    .action(async (options: ListOptions) => done(await atDesk(world, options, (desk) => listed(desk, options))))

async function listed({ operator }: Desk, options: ListOptions): Promise<Report> {
  const { state, tenant, scope, olderThan, oldest, limit } = options
  const keys = await operator.keysList({ kind: state, tenant, scope, olderThanMs: olderThan, oldestFirst: oldest, limit })
  const rows = keys.map((key) => [
    key.state,
    moment(key.createdAt),
    String(key.fence),
    printable(key.tenant),
    printable(key.scope),
    printable(key.key),
    cut(printable(key.reason ?? ''), 60),
  ])
  const head = ['STATE', 'CREATED', 'FENCE', 'TENANT', 'SCOPE', 'KEY', 'REASON']
  const more = keys.length === limit ? [`(the first ${limit}: --limit shows more)`] : []
  return { data: { keys: keys.map(keyData) }, lines: keys.length === 0 ? ['No such keys.'] : [...columns([head, ...rows]), ...more] }
}
