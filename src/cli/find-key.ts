import type { Command } from 'commander'
import { keyId } from '../core/key.js'
import type { KeyStory } from '../stores/postgres/queries/key-story.js'
import type { Desk } from './command.js'
import { notFound, wrongUsage } from './exit-codes.js'
import { printable, quoted } from './words.js'

export interface KeyName {
  readonly tenant?: string
  readonly scope?: string
  readonly id?: string
}

/** The most keys listed that share a name. */
const listed = 20

export function namesKey(command: Command): Command {
  return command
    .argument('[key]', 'the key, as the client sent it')
    .option('--tenant <tenant>', 'whose key it is')
    .option('--scope <scope>', 'the operation or endpoint')
    .option('--id <uuid>', 'the id of the row, instead of key and scope')
    .addHelpText(
      'after',
      `
The key is found at once by --tenant and --scope, or by --tenant and --id.
With less than that the whole table is read; if several keys match, they are
listed, and the exit code is 4.`,
    )
}

/** Exactly one key, as it is now. */
export async function findKey({ operator }: Desk, key: string | undefined, { tenant, scope, id }: KeyName): Promise<KeyStory> {
  const story = await operator.keyStory(await placeOf())
  if (story) return story
  throw notFound(
    `There is no such key${key === undefined ? '' : ` as ${printable(key)}`}${tenant === undefined ? '' : ` of ${printable(tenant)}`}.`,
  )

  async function placeOf(): Promise<{ tenant: string; id: string }> {
    if ((key === undefined) === (id === undefined)) throw wrongUsage('Pass a key, or the id of its row with --id.')
    if (id !== undefined && !uuid.test(id)) throw wrongUsage('--id must be a UUID, as oncekey list --json shows it.')
    if (tenant !== undefined && id !== undefined) return { tenant, id }
    if (tenant !== undefined && scope !== undefined && key !== undefined) return { tenant, id: keyId({ tenant, scope, key }) }
    const found = await operator.keysList({ tenant, scope, key, id, limit: listed })
    const [one] = found
    if (one && found.length === 1) return one
    if (!one) throw notFound(`There is no key ${printable(key ?? String(id))}.`)
    const names = found.map((each) => `  ${nameOf(each)}`)
    throw notFound(`${found.length === listed ? 'Many' : found.length} keys match. Which one?\n${names.join('\n')}`)
  }
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** The key's arguments on a command line. One with unprintable characters is named by its id. */
export function nameOf({ tenant, scope, key, id }: { tenant: string; scope: string; key: string; id: string }): string {
  const names = [tenant, scope, key]
  if (names.some((name) => printable(name) !== name || name.startsWith('-'))) return `--id ${id}`
  return `--tenant ${quoted(tenant)} --scope ${quoted(scope)} ${quoted(key)}`
}
