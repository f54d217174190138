import postgres from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPostgresJs, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

test('never commits half a phase when postgres.js goes on with another connection', async () => {
  await database.pool.query('create table orders (id text primary key)')
  const sql = postgres(database.url, { max: 1, onnotice: () => {} })
  onTestFinished(() => sql.end({ timeout: 0 }))
  const once = createOnce({ store: postgresStore(fromPostgresJs(sql)) })
  let stolen: Promise<unknown> = Promise.resolve()
  const operation = once.operation('half', {}, async (run) => {
    await run.phase('ordered', async (tx) => {
      await tx`insert into orders values ('first')`
      if (run.attempt === 1) {
        // The server ends the session while the phase is idle, and somebody else begins a transaction on the new one.
        const [session] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`
        await database.pool.query('select pg_terminate_backend($1)', [session?.pid])
        let arrived = () => {}
        const open = new Promise<void>((resolve) => {
          arrived = resolve
        })
        stolen = sql
          .begin(async (other) => {
            await other`insert into orders values ('somebody else')`
            arrived()
            await new Promise((resolve) => setTimeout(resolve, 200))
          })
          .catch(() => {})
        await open
      }
      await tx`insert into orders values ('second')`
    })
    return reply(201)
  })
  const attempt = () => operation.run({ tenant: 't', key: 'k', input: null })
  const first = await attempt().then(
    ({ kind }) => kind,
    () => 'failed',
  )
  await stolen
  const rows = async () => (await database.pool.query(`select id from orders where id in ('first', 'second') order by id`)).rows
  const { rows: keys } = await database.pool.query('select recovery_point from oncekey.keys')
  // Either all of the phase, or nothing of it.
  const whole = [{ id: 'first' }, { id: 'second' }]
  expect([first, await rows(), keys[0].recovery_point]).toEqual(
    keys[0].recovery_point ? ['executed', whole, 'ordered'] : ['failed', [], null],
  )
  await attempt()
  expect(await rows()).toEqual(whole)
})
