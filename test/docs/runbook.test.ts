// What the pages tell people to type in trouble exists: commands, their options, and statements that a real database takes.
import { describe, expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { commandLine } from '../cli/command-line.js'
import { useDatabase } from '../support/postgres/database.js'
import { pages, read, section } from './pages.js'

const runbook = 'docs/guide/runbook.md'
const oncekey = commandLine(undefined)

/** What a page says to type: in a block of the shell, or in backticks. */
function typedIn(page: string): string[] {
  const blocks = [...read(page).matchAll(/```(?:sh|console)\n(.*?)```/gs)].flatMap(([, text]) => (text as string).split('\n'))
  const inline = [...read(page).matchAll(/`([^`\n]+)`/g)].map(([, text]) => text as string)
  const lines = [...blocks, ...inline].map((line) => /^(?:\$ )?(?:npx )?oncekey ([a-z].*)/.exec(line)?.[1]?.trim())
  return [...new Set(lines.filter((line) => line !== undefined))]
}

const guides = pages.filter((page) => page.startsWith('docs/guide/') && typedIn(page).length > 0)
const typed = guides.flatMap((page) => typedIn(page).map((line) => ({ page, line })))

test('the runbook has commands to type', () => {
  expect(typedIn(runbook).length).toBeGreaterThan(20)
})

test.each(typed)('$page: oncekey $line', async ({ line }) => {
  const [command = '', sub = ''] = line.split(' ')
  const words = command === 'jobs' && /^(list|show|retry|discard)$/.test(sub) ? [command, sub, '--help'] : ['help', command]
  // `oncekey jobs` by itself lists.
  const help =
    (await oncekey(...words)).out + (words.length === 2 && command === 'jobs' ? (await oncekey('jobs', 'list', '--help')).out : '')
  expect(help).toMatch(new RegExp(`Usage: oncekey ${command}`))
  const options = [...line.matchAll(/ (--[a-z-]+)/g)].map(([, option]) => option as string)
  expect(options.filter((option) => !help.includes(option))).toEqual([])
})

describe('statements', () => {
  const database = useDatabase()
  const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
  const statements = [...read(runbook).matchAll(/```sql\n(.*?)```/gs)].map(([, sql]) => sql as string)
  const run = async (sql: string) => (await database.pool.query(sql)).rows

  test('each runs on a database of ours', async () => {
    expect(statements.length).toBeGreaterThan(4)
    for (const sql of statements) await run(sql)
  })

  test('tell the first input, what is parked, and which steps are on record half-way', async () => {
    const createOrder = once.operation('orders.create', {}, async (run) => {
      await run.phase('order_created', () => 1)
      await run.call('charge_created', () => Promise.reject(new Error('cut off')), { whenUnknown: 'park' })
      return reply(201)
    })
    expect((await createOrder.run({ tenant: 'acme', key: 'order-1', input: { item: 'tea' } })).kind).toBe('parked')
    const answers = await Promise.all(statements.map(run))
    expect(answers.flat()).toEqual(
      expect.arrayContaining([
        { first_input: '{"item":"tea"}' },
        expect.objectContaining({ scope: 'orders.create', count: '1', since: expect.any(Date) }),
        { scope: 'orders.create', name: 'order_created', count: '1' },
      ]),
    )
  })

  /** An order that stands still behind its second step; then the next deploy, with other steps. */
  async function afterDeploy(name: string, steps: readonly string[]) {
    const deployed = (names: readonly string[], end: () => ReturnType<typeof reply>) => {
      const { operation } = createOnce({ store: postgresStore(fromPg(database.pool)) })
      return operation(name, {}, async (run) => {
        for (const step of names) await run.phase(step, () => step)
        return end()
      })
    }
    const request = { tenant: 'acme', key: 'half-way', input: null }
    const fails = () => {
      throw new Error('the provider is down')
    }
    await expect(deployed(['ordered', 'noted'], fails).run(request)).rejects.toThrow('the provider is down')
    return (await deployed(steps, () => reply(201)).run(request)).kind
  }

  test('a deploy may add a step behind those that are on record, and not in front of one, nor without one', async () => {
    expect(await afterDeploy('adds-behind', ['ordered', 'noted', 'added'])).toBe('executed')
    expect(await afterDeploy('adds-between', ['ordered', 'added', 'noted'])).toBe('parked')
    expect(await afterDeploy('leaves-out', ['ordered'])).toBe('parked')
  })

  /** An operation whose provider notes each key that it is sent; the first time, the call does not even go out. */
  function charging(name: string, { failFirst }: { failFirst: boolean }) {
    const sent: string[] = []
    let fails = failFirst
    const operation = once.operation(name, {}, async (run) => {
      await run.phase('ordered', () => 1)
      await run.call('charged', ({ key }) => {
        if (fails) throw new Error('not sent')
        sent.push(key)
      })
      return reply(201)
    })
    const attempt = () => operation.run({ tenant: 'acme', key: 'k', input: null }).then(({ kind }) => kind, String)
    const mend = () => {
      fails = false
    }
    return { sent, attempt, mend }
  }

  const save = () =>
    run(
      'drop table if exists saved_keys, saved_steps; create table saved_keys as table oncekey.keys; create table saved_steps as table oncekey.steps',
    )
  const restore = () =>
    run(
      'delete from oncekey.steps; delete from oncekey.keys; insert into oncekey.keys select * from saved_keys; insert into oncekey.steps select * from saved_steps',
    )

  test('after a restore, what was begun before it is sent again with the same derived key', async () => {
    const { sent, attempt, mend } = charging('before', { failFirst: true })
    expect(await attempt()).toBe('Error: not sent')
    mend()
    await save()
    expect(await attempt()).toBe('executed')
    await restore()
    expect(await attempt()).toBe('executed')
    expect([sent.length, new Set(sent).size]).toEqual([2, 1])
  })

  test('after a restore, what was begun after the backup is new to everybody: another derived key, a second charge', async () => {
    const { sent, attempt } = charging('after', { failFirst: false })
    await save()
    expect(await attempt()).toBe('executed')
    await restore()
    expect(await attempt()).toBe('executed')
    expect([sent.length, new Set(sent).size]).toEqual([2, 2])
  })

  test('a key that a restored database has forgotten is put back with its order, and its retry does not run', async () => {
    await database.pool.query('create table orders (id bigint generated always as identity, charge_id text)')
    expect(section(runbook, 'Postgres was restored from a backup')).toContain('await once.within(tx, { tenant: lost.tenant')
    const ref = { tenant: 'acme', scope: 'orders.pay', key: 'lost' }
    await fromPg(database.pool).transaction(async (tx) => {
      await once.within(tx, ref, async () => {
        const { rows } = await tx.query('insert into orders (charge_id) values ($1) returning id::text as id', ['ch_1'])
        return reply(201, { id: rows[0]?.id as string })
      })
    })
    const pay = once.operation('orders.pay', {}, () => Promise.reject(new Error('it must not run')))
    const outcome = await pay.run({ ...ref, input: { item: 'tea' } })
    expect(outcome).toMatchObject({ kind: 'replayed', answer: { status: 201 } })
    expect(await run('select charge_id from orders')).toEqual([{ charge_id: 'ch_1' }])
  })
})
