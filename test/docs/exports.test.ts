// What the package exports, and every option of it, is in the reference; and nothing is there that is no more.
import { describe, expect, test } from 'vitest'
import { type Duration, durationMs } from '../../src/core/duration.js'
import { firstCells, headingAt, read, section } from './pages.js'
import { type Declared, entryPoints, exportsOf, membersOfType } from './public-exports.js'

const page = 'docs/reference/exports.md'
const shared = section(page, 'Every adapter')

/** A section of an adapter stands for what all adapters have, too. */
function sectionsOf(name: string): string[] {
  const own = section(page, name)
  return own.includes('(#every-adapter)') ? [shared, own] : [own]
}

const typesIn = (text: string) =>
  [...((text.split('\nTypes: ')[1] ?? '').split('\n\n')[0]?.matchAll(/`(\w+)`/g) ?? [])].map(([, name]) => name as string)
const sorted = (names: Iterable<string>) => [...names].sort()

const all = [...entryPoints].map(([name, path]) => ({ name, path, declared: [...exportsOf(path).values()] }))

describe.each(all)('$name', ({ name, path, declared }) => {
  test('has all its functions and values in the reference, and no others', async () => {
    const values = declared.filter(({ isType }) => !isType).map((one) => one.name)
    expect(sorted(sectionsOf(name).flatMap(firstCells))).toEqual(sorted(values))
    // The sources were read right: what the module really has is the same.
    const module = (await import(/* @vite-ignore */ `../../${path}`)) as object
    expect(sorted(Object.keys(module))).toEqual(sorted(values))
  })

  test('has all its types in the reference, and no others', () => {
    const types = declared.filter(({ isType }) => isType).map((one) => one.name)
    expect(sorted(sectionsOf(name).flatMap(typesIn))).toEqual(sorted(types))
  })
})

test('every entry point has a section, in the order of package.json', () => {
  const headings = [...read(page).matchAll(/^## (oncekey.*)$/gm)].map(([, heading]) => heading)
  expect(headings).toEqual([...entryPoints.keys()])
})

/** Where a type is described, by the page's own links. */
const described = new Map(
  [...read(page).matchAll(/\[`(\w+)`\]\((\w[\w.-]*\.md)#([\w-]+)\)/g)].map(([, name, file, anchor]) => {
    return [name as string, { file: `docs/reference/${file}`, anchor: anchor as string }]
  }),
)
const types = new Map(
  all.flatMap(({ declared }) => declared.filter(({ isType }) => isType)).map((one) => [`${one.name} of ${one.path}`, one]),
)
const optionTypes = [...types.values()].filter(({ name }) => name.endsWith('Options'))

test.each(optionTypes)('$name has a table in the reference', ({ name }) => {
  expect(described.has(name)).toBe(true)
})

/** The tables of options, each with the types that are described there. */
const tables = [...new Set(optionTypes.map(({ name }) => JSON.stringify(described.get(name))))].map((place) => {
  const { file, anchor } = JSON.parse(place) as { file: string; anchor: string }
  const here = [...types.values()].filter(({ name }) => JSON.stringify(described.get(name)) === place)
  return { place: `${file}#${anchor}`, text: section(file, headingAt(file, anchor)), here }
})
// An option of the relay has options itself.
const backoff = { name: 'BackoffOptions', isType: true, path: 'src/outbox/backoff.ts' }
tables.push({ place: 'docs/reference/options.md#backoff', text: section('docs/reference/options.md', 'backoff'), here: [backoff] })

describe.each(tables)('$place', ({ text, here }) => {
  const members = here.flatMap(({ name, path }) => membersOfType(name, path) ?? [])
  const listed = firstCells(text)

  test('has every option of what is described there', () => {
    const elsewhere = (from: string) => described.has(from)
    const wanted = members.flatMap(({ own, inherited }) => [
      ...own,
      ...inherited.filter(({ from }) => !elsewhere(from)).flatMap(({ names }) => names),
    ])
    expect(wanted.filter((name) => !listed.includes(name))).toEqual([])
  })

  test('has no option that is no more', () => {
    const known = members.flatMap(({ own, inherited }) => [...own, ...inherited.flatMap(({ names }) => names)])
    expect(listed.filter((name) => !known.includes(name))).toEqual([])
  })

  test('gives the defaults that are in the code', () => {
    const stated = defaultsIn(text)
    for (const [name, value] of here.flatMap((one) => [...defaultsOf(one)]))
      expect([name, plain(stated.get(name) ?? '')]).toEqual([name, plain(value)])
  })
})

test('the default size of a batch of postgresStore is that of the code', () => {
  const [, code] =
    /\{ (maxRows = \d+, maxInFlight = \d+) \}: BatchOptions/.exec(read('src/stores/postgres/batching/batched-verbs.ts')) ?? []
  expect(section('docs/reference/options.md', 'postgresStore')).toContain(`| \`{ ${code?.replaceAll(' =', ':')} }\` |`)
})

test('defaults are found in the code, so that the above can fail', () => {
  const found = optionTypes.filter((one) => defaultsOf(one).size > 0).map(({ name }) => name)
  const workers = ['SweeperOptions', 'CompleterOptions', 'ReaperOptions', 'RelayOptions', 'ReconcilerOptions']
  const others = [
    'OnceOptions',
    'HttpOptions',
    'IdempotencyOptions',
    'StatusOptions',
    'WebhookOptions',
    'CallOptions',
    'WebhookSinkOptions',
  ]
  const stores = ['PostgresStoreOptions', 'MigrateOptions', 'RedisStoreOptions', 'RedisFilterOptions']
  expect(found).toEqual(expect.arrayContaining([...workers, ...others, ...stores]))
})

/** The cells under "Default", by the option's name. */
function defaultsIn(text: string): Map<string, string> {
  const found = new Map<string, string>()
  for (const table of text.split(/\n{2,}/).filter((part) => part.trimStart().startsWith('|'))) {
    const [head = '', , ...rows] = table.trim().split('\n')
    const column = head.split('|').findIndex((cell) => cell.trim() === 'Default')
    if (column === -1) continue
    for (const row of rows) {
      const cells = row.replaceAll('\\|', '').split('|')
      for (const name of firstCells(row)) found.set(name, cells[column]?.trim() ?? '')
    }
  }
  return found
}

/** Files in which options are given their defaults, where that is not the file that declares them. */
const resolvedIn: Readonly<Record<string, string>> = { IdempotencyOptions: 'src/http/idempotency.ts' }

/** Defaults that are literals: `{ every = '30s', batch = 500 }`, or `options.maxBodyBytes ?? 1024 * 1024`. */
function defaultsOf({ name, path }: Declared): Map<string, string> {
  const { own = [] } = membersOfType(name, path) ?? {}
  const isOptional = (option: string) => new RegExp(`^ {2,4}(readonly )?${option}\\?:`, 'm').test(read(path))
  const literal = /(?:[{,(]\s*|\boptions\.)(\w+)(?:: \w+)? (?:=|\?\?) ('[^']*'|[\d_]+(?: \* [\d_]+)*|true|false)(?=[,\s}])/g
  const found = [...read(resolvedIn[name] ?? path).matchAll(literal)].map(([, option, value]) => [option, value] as [string, string])
  return new Map(found.filter(([option]) => own.includes(option) && isOptional(option)))
}

/** `'30s'`, 10,000, 1 MiB and 1024 * 1024 as what they mean, without the words that explain them. */
function plain(text: string): string | number {
  const bare = (text.split(': ')[0] as string).replaceAll(/[`',_]/g, '')
  const [, size, unit] = /^(\d+) ([KM])iB$/.exec(bare) ?? []
  if (size) return Number(size) * (unit === 'K' ? 1024 : 1024 ** 2)
  if (/^\d+( \* \d+)*$/.test(bare)) return bare.split(' * ').reduce((product, factor) => product * Number(factor), 1)
  if (/^[\d.]+(ms|s|m|h|d|w)$/.test(bare)) return durationMs(bare as Duration, 'default')
  return bare
}

describe('objects', () => {
  const objects = [
    ...(read(page)
      .split('\n## Objects\n')[1]
      ?.matchAll(/^## (\w+)$/gm) ?? []),
  ].map(([, name]) => name as string)

  test.each(objects)('%s has exactly its members in the reference', (name) => {
    const { path } = objectAt(name)
    expect(sorted(firstCells(section(page, name)))).toEqual(sorted(membersOfType(name, path)?.own ?? []))
  })

  test('have the options of their members there, too', () => {
    const found = objects.flatMap((name) => inlineOptions(bodyOf(objectAt(name))).map(([member, options]) => ({ name, member, options })))
    // It finds some: else it would be of no use.
    expect(found.map(({ member }) => member)).toEqual(expect.arrayContaining(['stop', 'resume', 'keysStream', 'list']))
    for (const { name, member, options } of found) {
      const [, row = ''] = new RegExp(`^\\| \`${member}\` \\|(.*)$`, 'm').exec(section(page, name)) ?? []
      expect([`${name}.${member}`, options.filter((option) => !mentions(row, option))]).toEqual([`${name}.${member}`, []])
    }
  })

  /** The one whose entry point links to its section: two rooms have a Service. */
  function objectAt(name: string): Declared {
    const entry = all.find((one) => section(page, one.name).includes(`[\`${name}\`](#${name.toLowerCase()})`))
    return entry?.declared.find((one) => one.name === name) as Declared
  }
})

test('functions have the options there that have no type of their own', () => {
  const seen: string[] = []
  for (const { name: entry, declared } of all) {
    for (const one of declared.filter(({ isType }) => !isType)) {
      const texts = sectionsOf(entry).join('\n')
      const [, row = ''] = new RegExp(`^\\| \`${one.name}\` \\|(.*)$`, 'm').exec(texts) ?? []
      const [, file, anchor] = /\((\w[\w.-]*\.md)#([\w-]+)\)/.exec(row) ?? []
      const linked = file ? section(`docs/reference/${file}`, headingAt(`docs/reference/${file}`, anchor as string)) : ''
      const options = inlineOptions(signatureOf(one)).flatMap(([, names]) => names)
      if (options.length > 0) seen.push(one.name)
      expect([one.name, options.filter((option) => !mentions(row + linked, option))]).toEqual([one.name, []])
    }
  }
  expect(seen).toEqual(['memoryStore', 'functionSink', 'postgresOperator'])
})

const mentions = (text: string, option: string) => new RegExp(`\\b${option}\\b`).test(text)

/** The parameters of a function; empty for what is none. */
function signatureOf({ name, path }: Declared): string {
  const [text = ''] = new RegExp(`^export (?:async )?function\\*? ${name}\\b.*?\\n(?=\\}| {2}\\w.* \\{$)`, 'ms').exec(read(path)) ?? []
  return text.split(/\): .*\{$/m)[0] as string
}

function bodyOf({ name, path }: Declared): string {
  return new RegExp(`^export interface ${name}\\b.*?^\\}`, 'ms').exec(read(path))?.[0] ?? ''
}

/** Parameters that are objects of optional members, spelled out: by the name before them, their members. */
function inlineOptions(text: string): [name: string, options: string[]][] {
  const literals = [...text.matchAll(/(\w+)(?:<[^>]*>)?\((?:[^()]|\([^()]*\))*?[\w}]\??: \{ ((?:readonly )?\w+\?: [^{}]*) \}/g)]
  return literals.map(([, name, members]) => [
    name as string,
    [...(members as string).matchAll(/(\w+)\?: /g)].map(([, option]) => option as string),
  ])
}
