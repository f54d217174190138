// The documentation is held to the sources: what is listed there exists, what exists is listed there, and its code compiles.
import { randomBytes } from 'node:crypto'
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
import { reconciler, relay, sweeper } from '../../src/workers/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { membersOf, read, rows, section, variantsOf } from './pages.js'

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
    ['RedisStoreOptions', 'src/stores/redis/redis-store.ts', 'redisStore'],
    ['RedisFilterOptions', 'src/stores/redis/filter/redis-filter.ts', 'redisFilter'],
    ['SweeperOptions', 'src/workers/sweeper.ts', 'sweeper'],
    ['CompleterOptions', 'src/workers/completer.ts', 'completer'],
    ['ReaperOptions', 'src/workers/reaper.ts', 'reaper'],
    ['RelayOptions', 'src/workers/relay.ts', 'relay'],
    ['BackoffOptions', 'src/outbox/backoff.ts', 'backoff'],
    ['WebhookSinkOptions', 'src/outbox/sinks/webhook-sink.ts', 'webhookSink'],
    ['StageOptions', 'src/phases/operation-run.ts', 'run.stage'],
    ['ReconcileOptions', 'src/reconcile/reconcile.ts', 'reconcile'],
    ['ReconcilerOptions', 'src/workers/reconciler.ts', 'reconciler'],
    ['MigrateOptions', 'src/stores/postgres/migrate.ts', 'migrate and migrationSql'],
    ['TelemetryOptions', 'src/telemetry/opentelemetry.ts', 'telemetry'],
    ['LocalOptions', 'src/phases/admission.ts', 'once.local'],
    ['CallOptions', 'src/phases/call.ts', 'run.call'],
    ['FetchOptions', 'src/phases/fetch-call.ts', 'run.fetch'],
    ['ConsumerOptions', 'src/phases/consumer.ts', 'once.consumer'],
    ['OperationRun', 'src/phases/operation-run.ts', 'The run of an operation'],
  ])('lists exactly the options of %s', (name, path, heading) => {
    expect([...rows(section(page, heading)).keys()]).toEqual(membersOf(name, path))
  })

  test('lists exactly the options of the sinks for queues', () => {
    const [shared = '', own = ''] = section(page, 'Sinks for queues').split('And where jobs go')
    expect([...rows(shared).keys()]).toEqual(membersOf('QueueSinkOptions', 'src/outbox/sinks/message.ts'))
    const sinks = { PgBoss: 'pg-boss', Nats: 'nats', Rabbitmq: 'rabbitmq', Kafka: 'kafka' }
    const members = Object.entries(sinks).flatMap(([name, file]) => membersOf(`${name}SinkOptions`, `src/outbox/sinks/${file}-sink.ts`))
    expect([...rows(own).keys()]).toEqual(members)
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

describe('http.md', () => {
  test('lists exactly the options of webhooks', () => {
    const text = section('docs/reference/http.md', 'webhook')
    expect([...rows(text).keys()]).toEqual(membersOf('WebhookOptions', 'src/http/webhook.ts'))
    expect(text).toContain('| `profile`, `problemBase` |')
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
    const types = ['KeyEvent', 'WorkerEvent', 'JobEvent'].flatMap((event) => variantsOf(event, 'type', source))
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

describe.each(['docs/guide/4-operating.md', 'docs/guide/residual-risk.md'])('%s', (page) => {
  const named = (pattern: RegExp) => [...read(page).matchAll(pattern)].map(([, name]) => name as string)

  test('names no metric that is none', () => {
    const metrics: string[] = Object.values(instruments).map(({ name }) => name)
    const found = named(/`(oncekey\.[a-z_.]+)`/g)
    expect(found.length).toBeGreaterThan(3)
    expect(found.filter((name) => !metrics.includes(name))).toEqual([])
  })

  test('names no event that is none', () => {
    const words = [...Object.keys(eventLog), ...variantsOf('ResolveAs', 'as', 'src/phases/resolve.ts')]
    expect(named(/`([a-z]+(?:-[a-z]+)+)`/g).filter((name) => !words.includes(name))).toEqual([])
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

  test('lists exactly the members of the optional outbox', () => {
    expect(named('Outbox')).toEqual(membersOf('OutboxStore', 'src/core/store.ts'))
  })

  test('lists exactly the members of the optional turns', () => {
    expect(named('Turns')).toEqual(membersOf('TurnStore', 'src/core/store.ts'))
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

    const bothSides = { local: () => [1], foreign: () => [1], key: (item: number) => item }
    expect(await reconciler(once, { name: 'charges', ...bothSides }).runOnce()).toMatchObject({ equal: 1 })
    await sweeper(once).runOnce()

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
    expect((await relay(audited, { sink: () => {} }).runOnce()).delivered).toBe(1)
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
