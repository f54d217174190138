// The documentation is held to the sources: what is listed there exists, what exists is listed there, and its code compiles.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Duration, durationMs } from '../../src/core/duration.js'
import { neverReplayed } from '../../src/core/kept-answer.js'
import { resolvePolicy } from '../../src/core/policy.js'
import { eventLog } from '../../src/engine/event-log.js'
import { createOnce, errorStatuses, reply, retention } from '../../src/index.js'
import * as rulesOfStores from '../../src/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { instruments } from '../../src/telemetry/instruments.js'
import { manualClock } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** README.md and everything under docs/, as paths from the root. */
const pages = [
  ...['README.md'].filter((path) => existsSync(join(root, path))),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => `docs/${path.replaceAll('\\', '/')}`)
    .sort(),
]

/** The text under a heading of the second level, up to the next one. */
function section(page: string, heading: string): string {
  const [, text] = read(page).split(`\n## ${heading}\n`)
  if (text === undefined) throw new Error(`${page} has no section "${heading}"`)
  return text.split('\n## ')[0] as string
}

/** The cells of each table row that begins with a name in backticks, by that name. */
function rows(text: string): Map<string, string[]> {
  const lines = [...text.matchAll(/^\| `([^`]+)` \|(.*)\|$/gm)]
  return new Map(lines.map(([, name, cells]) => [name as string, (cells as string).split('|').map((cell) => cell.trim())]))
}

/** The names of an interface's own members, from its source text. */
function membersOf(name: string, path: string): string[] {
  const [, body = ''] = new RegExp(`\\ninterface ${name}\\b[^{]*\\{\\n(.*?)\\n\\}`, 's').exec(read(path).replaceAll('export ', '')) ?? []
  const members = [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??[:(<]/gm)].map(([, member]) => member as string)
  if (members.length === 0) throw new Error(`${path} has no interface ${name} with members`)
  return members
}

/** The values of a discriminating field in a union type, from its source text. */
function variantsOf(type: string, field: string, path: string): string[] {
  const [, union = ''] = new RegExp(`\\nexport type ${type}\\b(.*?)\\n\\n`, 's').exec(read(path)) ?? []
  const found = new Set([...union.matchAll(new RegExp(`readonly ${field}: '([^']+)'`, 'g'))].map(([, value]) => value as string))
  if (found.size === 0) throw new Error(`${path} has no type ${type} with a field ${field}`)
  return [...found]
}

describe('errors.md', () => {
  const page = 'docs/reference/errors.md'

  test('has a section for every code, and none for a code that is no more', () => {
    const headings = [...read(page).matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)
    expect(headings).toEqual(Object.keys(errorStatuses).map((code) => `\`${code}\``))
  })

  test.each(Object.entries(errorStatuses))(
    'gives %s the status %d, and says what happened, what to do and whether to retry',
    (code, status) => {
      const labels = [...section(page, `\`${code}\``).matchAll(/^- \*\*(.*?):\*\* (\S+)/gm)].map(([, label, word]) => [label, word])
      expect(labels.map(([label]) => label)).toEqual(['Status', 'What happened', 'What to do', 'Retry'])
      expect(labels[0]).toEqual(['Status', String(status)])
    },
  )
})

describe('options.md', () => {
  const page = 'docs/reference/options.md'

  test.each([
    ['OnceOptions', 'src/create-once.ts', 'createOnce'],
    ['PolicyOptions', 'src/core/policy.ts', 'Policy'],
    ['FingerprintRequest', 'src/core/fingerprint/version-1.ts', 'Fingerprint request'],
    ['PostgresStoreOptions', 'src/stores/postgres/postgres-store.ts', 'postgresStore'],
    ['SweeperOptions', 'src/workers/sweeper.ts', 'sweeper'],
    ['CompleterOptions', 'src/workers/completer.ts', 'completer'],
    ['ReaperOptions', 'src/workers/reaper.ts', 'reaper'],
    ['MigrateOptions', 'src/stores/postgres/migrate.ts', 'migrate and migrationSql'],
    ['TelemetryOptions', 'src/telemetry/opentelemetry.ts', 'telemetry'],
    ['LocalOptions', 'src/phases/admission.ts', 'once.local'],
    ['CallOptions', 'src/phases/call.ts', 'run.call'],
    ['OperationRun', 'src/phases/operation-run.ts', 'The run of an operation'],
  ])('lists exactly the options of %s', (name, path, heading) => {
    expect([...rows(section(page, heading)).keys()]).toEqual(membersOf(name, path))
  })

  test('lists exactly the options of execute, and what its work sees', () => {
    const [options = '', run = ''] = section(page, 'once.execute').split('The work sees a `Run`')
    const ref = membersOf('KeyRef', 'src/core/key.ts')
    expect([...rows(options).keys()]).toEqual([...ref, ...membersOf('ExecuteOptions', 'src/engine/execute.ts')])
    const fields = [...run.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell]) => (cell as string).replaceAll('`', '').split(', '))
    expect(fields).toEqual(membersOf('Run', 'src/engine/held.ts'))
  })

  test('lists exactly the options of operations, and what a request of one takes', () => {
    const [options = '', request = ''] = section(page, 'once.operation').split('What `run` takes:')
    const local = membersOf('LocalOptions', 'src/phases/admission.ts')
    expect([...rows(options).keys()]).toEqual([...local, ...membersOf('OperationOptions', 'src/phases/operation.ts')])
    expect([...rows(request).keys()]).toEqual(membersOf('RunRequest', 'src/phases/admission.ts'))
  })

  test('lists exactly the options of within', () => {
    const ref = membersOf('KeyRef', 'src/core/key.ts')
    const [, picked = ''] = /WithinOptions extends KeyRef, Pick<PolicyOptions, (.*?)>/.exec(read('src/phases/within.ts')) ?? []
    const policy = picked.split(' | ').map((name) => name.replaceAll("'", ''))
    expect([...rows(section(page, 'once.within')).keys()]).toEqual([
      ...ref,
      ...policy,
      ...membersOf('WithinOptions', 'src/phases/within.ts'),
    ])
  })

  test('lists exactly the words on a parked key, with what each takes', () => {
    const words = rows(section(page, 'once.resolve'))
    expect([...words.keys()]).toEqual(variantsOf('ResolveAs', 'as', 'src/phases/resolve.ts'))
    const lines = [...read('src/phases/resolve.ts').matchAll(/\| \{ readonly as: '([^']+)'(.*) \}/g)]
    for (const [, as, others] of lines) {
      const fields = [...(others as string).matchAll(/readonly (\w+)/g)].map(([, field]) => `\`${field}\``)
      expect([as, words.get(as as string)?.[0]]).toEqual([as, fields.join(', ')])
    }
  })

  test('gives the defaults of calls that are in force', () => {
    const source = read('src/phases/call.ts')
    const [, defaults = ''] = /const \{ (.*) \} = options/.exec(source) ?? []
    for (const name of ['whenUnknown', 'resendWithin', 'settle'])
      expect(defaults).toContain(`${name} = ${published('run.call', name).replaceAll('`', '')}`)
  })

  test('lists exactly the options of fingerprints, secrets and exclusions', () => {
    const options = membersOf('FingerprintOptions', 'src/core/fingerprint/fingerprint.ts')
    const secrets = membersOf('FingerprintSecret', 'src/core/fingerprint/fingerprint.ts')
    const exclusions = membersOf('Exclusions', 'src/core/fingerprint/exclusions.ts')
    expect([...rows(section(page, 'Fingerprint options')).keys()]).toEqual([...options, ...secrets, ...exclusions])
  })

  test('lists exactly the options of encryption and its keys', () => {
    const options = membersOf('EncryptionOptions', 'src/core/key-ring.ts')
    const keys = membersOf('EncryptionKey', 'src/core/key-ring.ts')
    expect([...rows(section(page, 'Encryption options')).keys()]).toEqual([...options, ...keys])
  })

  const published = (heading: string, name: string) => rows(section(page, heading)).get(name)?.[1] ?? ''
  const publishedMs = (heading: string, name: string) => durationMs(published(heading, name).replaceAll(/[`']/g, '') as Duration, name)

  test('gives the defaults of the policy that are in force', () => {
    const { leaseMs, maxRunMs, retention: kept } = resolvePolicy({})
    expect(['lease', 'maxRun', 'retentionFloor'].map((name) => publishedMs('Policy', name))).toEqual([leaseMs, maxRunMs, kept.floorMs])
    expect(published('Policy', 'retention')).toMatch(/^`retention\.payment` \(24 hours from creation\)/)
    expect(kept).toMatchObject({ ms: durationMs(retention.payment, 'retention'), from: 'creation' })
  })

  const request = { tenant: 't', scope: 's', key: 'k', fingerprint: false, afterFailure: 'rerun' } as const

  test('gives the cap on answers that is in force', async () => {
    const [, mebibytes] = /^(\d+) MiB$/.exec(published('createOnce', 'maxAnswerBytes')) ?? []
    const cap = Number(mebibytes) * 1024 ** 2
    const once = createOnce({ store: memoryStore() })
    const omitted = async (bytes: number) => {
      const execute = () => once.execute({ ...request, key: String(bytes) }, () => reply(200, new Uint8Array(bytes)))
      await execute()
      const replay = await execute()
      return replay.kind === 'replayed' && replay.answer.omittedBytes
    }
    expect([await omitted(cap), await omitted(cap + 1)]).toEqual([undefined, cap + 1])
  })

  test('gives the patience with the store that is in force', async () => {
    const clock = manualClock()
    const delays: number[] = []
    const schedule: typeof clock.schedule = (task, delayMs) => {
      delays.push(delayMs)
      return clock.schedule(task, delayMs)
    }
    const store = { ...memoryStore(), keyClaim: () => new Promise<never>(() => {}) }
    const waiting = createOnce({ store, clock: { ...clock, schedule } }).execute(request, () => reply(200))
    clock.advance(publishedMs('createOnce', 'storeTimeout'))
    await expect(waiting).rejects.toMatchObject({ code: 'store_timeout' })
    expect(delays).toEqual([publishedMs('createOnce', 'storeTimeout')])
  })

  test('lists every preset of retention', () => {
    const presets = [...rows(section(page, 'Retention')).keys()]
    expect(presets).toEqual(Object.keys(retention).map((name) => `retention.${name}`))
  })
})

describe('outcomes-and-events.md', () => {
  const page = 'docs/reference/outcomes-and-events.md'

  test('lists exactly the kinds of outcomes', () => {
    expect([...rows(section(page, 'Outcomes').split('\n### ')[0] as string).keys()]).toEqual([
      ...variantsOf('Outcome', 'kind', 'src/engine/outcome.ts'),
      ...variantsOf('OperationOutcome', 'kind', 'src/phases/admission.ts'),
    ])
  })

  test('lists exactly the types of events', () => {
    const source = 'src/engine/events.ts'
    const types = [...variantsOf('KeyEvent', 'type', source), ...variantsOf('WorkerEvent', 'type', source)]
    expect([...rows(section(page, 'Events')).keys()]).toEqual(types)
  })

  test('lists exactly the fields of each event', () => {
    const source = read('src/engine/events.ts')
    const variants = [...source.matchAll(/\{\s+readonly type: '([^']+)'(.*?)\n? *\}\n/gs)]
    const listed = rows(section(page, 'Events'))
    expect(variants.map(([, type]) => type)).toEqual([...listed.keys()])
    for (const [, type, others] of variants) {
      const fields = [...(others as string).matchAll(/readonly (\w+)/g)].map(([, field]) => `\`${field}\``)
      expect([type, listed.get(type as string)?.[0]]).toEqual([type, fields.join(', ')])
    }
  })
})

describe('operating.md', () => {
  const page = 'docs/guide/operating.md'
  const part = (heading: string) => section(page, 'Metrics, traces and logs').split(`\n### ${heading}\n`)[1]?.split('\n### ')[0] as string

  test('lists exactly the metrics, with their kinds, units and attributes', () => {
    const listed = [...rows(part('Metrics'))].map(([name, cells]) => [name, ...cells])
    const measured = Object.values(instruments).map(({ name, kind, unit, attributes, description }) => {
      return [name, kind, `\`${unit}\``, attributes.map((attribute) => `\`${attribute}\``).join(', '), description]
    })
    expect(listed).toEqual(measured)
  })

  test('gives each event the level that it has', () => {
    const levels = Object.entries(eventLog).map(([type, [level]]) => [type.replace('-again', ''), level])
    const listed = [...rows(part('Logs'))].flatMap(([level, [cell = '']]) =>
      [...cell.matchAll(/`([^`]+)`/g)].map(([, type]) => [type, level]),
    )
    expect(listed.sort()).toEqual(levels.sort())
  })
})

describe('secrets.md', () => {
  test('lists exactly the headers that are never replayed', () => {
    const [table = ''] = section('docs/guide/secrets.md', 'Headers').split('`Request-Id` is kept')
    const cells = [...table.matchAll(/^\| (`.*?) \|/gm)].map(([, cell]) => (cell as string).split(', and')[0] as string)
    const names = cells.flatMap((cell) => cell.replaceAll('`', '').toLowerCase().split(', '))
    expect(names).toEqual(neverReplayed)
  })
})

describe('store-contract.md', () => {
  const named = (heading: string) =>
    [...rows(section('docs/reference/store-contract.md', heading)).keys()].map((call) => call.split('(')[0])

  test('lists exactly the verbs of a store', () => {
    expect(['durability', ...named('Verbs')]).toEqual(membersOf('KeyStore', 'src/core/store.ts'))
  })

  test('lists exactly the members of the optional steps', () => {
    expect(named('Steps')).toEqual(membersOf('StepStore', 'src/core/store.ts'))
  })

  test('lists exactly the members of the optional upkeep', () => {
    expect(named('Upkeep')).toEqual(membersOf('UpkeepStore', 'src/core/store.ts'))
  })

  test('lists exactly the rules that stores share', () => {
    expect(named('The rules that stores share').sort()).toEqual(Object.keys(rulesOfStores).sort())
  })
})

describe('postgres.md', () => {
  const database = useDatabase()

  test('grants all that the running service needs', async () => {
    const [, grants = ''] = /```sql\n(.*?)```/s.exec(section('docs/guide/postgres.md', 'Least privilege')) ?? []
    const role = `orders_app_${randomBytes(6).toString('hex')}`
    expect(grants).toContain(' to orders_app;')
    await database.pool.query(`create role ${role} login; ${grants.replaceAll('orders_app', role)}`)
    const url = new URL(database.url)
    url.username = role
    const pool = database.createPool({ connectionString: url.href })
    onTestFinished(async () => {
      await pool.end()
      await database.pool.query(`drop owned by ${role}; drop role ${role}`)
    })

    const store = postgresStore(fromPg(pool))
    const once = createOnce({ store })
    const run = (key: string, work: () => ReturnType<typeof reply>) =>
      once.execute({ tenant: 't', scope: 's', key, fingerprint: false, afterFailure: 'rerun' }, work)
    const fails = () => {
      throw new Error('the work fails')
    }
    await expect(run('thrown', fails)).rejects.toThrow('the work fails')
    expect((await run('thrown', () => reply(200))).kind).toBe('executed')
    expect((await run('thrown', fails)).kind).toBe('replayed')
    const expire = () =>
      database.pool.query(`update oncekey.keys set expires_at = now() - interval '1 day', reap_after = now() - interval '1 day'`)
    await expire()
    expect(await store.keyReap({ limit: 10 })).toBe(1)

    const audited = createOnce({ store: postgresStore(fromPg(pool), { audit: true }) })
    const order = audited.operation('orders', {}, async (run) => {
      await run.phase('ordered', (tx) => run.stage(tx, 'receipt', {}))
      await run.call('charged', fails, { whenUnknown: 'park' })
      return reply(201)
    })
    const attempt = () => order.run({ tenant: 't', key: 'k', input: null })
    const ref = { tenant: 't', scope: 'orders', key: 'k' }
    expect((await attempt()).kind).toBe('parked')
    await audited.resolve(ref, { as: 'happened' })
    expect((await attempt()).kind).toBe('executed')
    expect(await audited.history(ref)).not.toEqual([])
    await expire()
    expect((await audited.local('local', {}, () => reply(201)).run({ tenant: 't', key: 'k', input: null })).kind).toBe('executed')
    expect((await run('thrown', () => reply(200))).kind).toBe('executed')
    await expire()
    expect((await run('thrown', () => reply(200))).kind).toBe('executed')
  })

  test('names every table and column', async () => {
    const { rows: columns } = await database.pool.query<{ column: string; table: string }>(
      `select table_name as table, column_name as column from information_schema.columns where table_schema = 'oncekey' order by 1, 2`,
    )
    const text = section('docs/guide/postgres.md', 'The tables at a glance')
    const tables = columns.filter(({ table }) => table !== 'migrations')
    expect(tables.filter(({ table, column }) => !text.includes(`\`oncekey.${table}\``) || !text.includes(`\`${column}\``))).toEqual([])
  })
})

interface CodeBlock {
  readonly page: string
  /** Of the opening fence, from 1. */
  readonly line: number
  /** A module in which everything of the page but this block and its prelude is blank, so that lines are those of the page. */
  readonly module: string
}

/**
 * The ```ts blocks of a page. Each is a module of its own. What it needs but should not show goes into a comment right before
 * it: <!-- ts-prelude: declare const pool: import('pg').Pool -->
 */
function codeBlocks(page: string): CodeBlock[] {
  const lines = read(page).split('\n')
  const blocks: CodeBlock[] = []
  for (let at = 0; at < lines.length; at += 1) {
    const [, fence, language] = /^ *(`{3,}|~{3,}) *(\w*)/.exec(lines[at] as string) ?? []
    if (fence === undefined) continue
    const end = lines.findIndex((line, index) => index > at && line.trim() === fence)
    if (end === -1) throw new Error(`${page}:${at + 1}: this code block is never closed`)
    if (language === 'ts' || language === 'typescript') {
      const module = lines.map((line, index) => (index > at && index < end ? line : ''))
      for (const [index, line] of preludeBefore(lines, at)) module[index] = line
      blocks.push({ page, line: at + 1, module: module.join('\n') })
    }
    at = end
  }
  return blocks
}

/** The lines of a prelude that ends right before line `at`, without the marks of the comment. */
function preludeBefore(lines: readonly string[], at: number): [index: number, line: string][] {
  let last = at - 1
  while (lines[last]?.trim() === '') last -= 1
  if (!lines[last]?.trimEnd().endsWith('-->')) return []
  let first = last
  while (first > 0 && !lines[first]?.includes('<!--')) first -= 1
  if (!lines[first]?.includes('<!-- ts-prelude:')) return []
  return lines.slice(first, last + 1).map((line, offset) => [first + offset, line.replace('<!-- ts-prelude:', '').replace('-->', '')])
}

/** The subpaths of the package, as they are published, but pointing at the sources. */
function sourcePaths(): Record<string, string[]> {
  const { exports } = JSON.parse(read('package.json')) as { exports: Record<string, string | { types: string }> }
  const paths: Record<string, string[]> = {}
  for (const [subpath, target] of Object.entries(exports)) {
    if (typeof target === 'string') continue
    const source = target.types.replace('./dist/', 'src/').replace(/\.d\.ts$/, '.ts')
    paths[`oncekey${subpath.slice(1)}`] = [join(root, source)]
  }
  return paths
}

test('every ts block compiles', async () => {
  const blocks = pages.flatMap(codeBlocks)
  const cache = join(root, 'node_modules/.cache')
  await mkdir(cache, { recursive: true })
  const folder = await mkdtemp(join(cache, 'oncekey-docs-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))

  const pageOf = new Map(blocks.map((block) => [`${block.page.replaceAll('/', '__')}-${block.line}.ts`, block]))
  for (const [name, { module }] of pageOf) await writeFile(join(folder, name), module)
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  const compilerOptions = { paths: sourcePaths(), moduleDetection: 'force', noUnusedLocals: false, noUnusedParameters: false }
  const config = { extends: join(root, 'tsconfig.json'), compilerOptions, include: [], files: [...pageOf.keys()] }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))

  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const output = await promisify(execFile)(process.execPath, [compiler, '--noEmit', '--pretty', 'false', '-p', folder], {
    cwd: folder,
  }).then(
    ({ stdout }) => stdout,
    ({ stdout, message }: { stdout?: string; message: string }) => stdout || message,
  )
  const complaints = output.replaceAll(/^(\S+\.ts)\((\d+),(\d+)\):/gm, (all, file: string, line: string, column: string) => {
    const block = pageOf.get(basename(file))
    return block ? `${block.page}:${line}:${column}` : all
  })
  expect(complaints).toBe('')
})

/** The text without code, in which brackets and hashes mean nothing. Lines stay where they are. */
function prose(page: string): string {
  const withoutBlocks = read(page).replaceAll(/^ *(`{3,}|~{3,})[\s\S]*?^ *\1 *$/gm, (block) => block.replaceAll(/[^\n]/g, ''))
  return withoutBlocks.replaceAll(/(`+)[^\n]*?\1/g, (code) => code.replaceAll(/[[\]()]/g, ' '))
}

/** The anchors of a page, as GitHub makes them of its headings. */
function anchors(page: string): Set<string> {
  const found = new Set<string>()
  for (const [, heading = ''] of prose(page).matchAll(/^#{1,6} +(.*?) *#*$/gm)) {
    const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const slug = text.replaceAll(/[^\p{L}\p{M}\p{N}_\- ]/gu, '').replaceAll(' ', '-')
    let anchor = slug
    for (let count = 1; found.has(anchor); count += 1) anchor = `${slug}-${count}`
    found.add(anchor)
  }
  for (const [, id = ''] of prose(page).matchAll(/<a (?:id|name)="([^"]+)"/g)) found.add(id)
  return found
}

/** What is wrong with the links of a page that lead into this repository. */
function brokenLinks(page: string): string[] {
  const text = prose(page)
  const links = [...text.matchAll(/\]\(<?([^)\s>]+)>?(?: +"[^"]*")?\)/g), ...text.matchAll(/^\[[^\]]+\]: *(\S+)/gm)]
  return links.flatMap(({ 1: link = '', index }) => {
    if (/^([a-z][a-z\d+.-]*:|\/\/)/i.test(link)) return []
    const [path = '', anchor] = decodeURIComponent(link).split('#')
    const from = path.startsWith('/') ? root : dirname(join(root, page))
    const target = path === '' ? page : relative(root, resolve(from, path.replace(/^\//, '')))
    const where = `${page}:${text.slice(0, index).split('\n').length}: ${link}`
    if (target.startsWith('..') || !existsSync(join(root, target))) return [`${where} leads nowhere`]
    if (anchor && target.endsWith('.md') && !anchors(target).has(anchor)) return [`${where} has no such heading`]
    return []
  })
}

test('every relative link leads somewhere', () => {
  expect(pages.flatMap(brokenLinks)).toEqual([])
})
