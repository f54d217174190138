import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createOnce, type ErrorCode, reply } from '../../src/index.js'
import { fromPg, fromPglite, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { startPostgres } from '../support/postgres/server.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()

const request = { tenant: 't', scope: 's', key: 'k', fingerprint: false, afterFailure: 'rerun' } as const

/** Executes through that pool, and expects the code, a way out in the message, and that the work did not run. */
async function expectRefusal(pool: pg.Pool, code: ErrorCode, wayOut: RegExp) {
  pool.on('error', () => {})
  let runs = 0
  const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout: '2s' })
  const attempt = once.execute({ ...request, key: crypto.randomUUID() }, () => {
    runs += 1
    return reply(200)
  })
  await expect(attempt).rejects.toMatchObject({ name: 'OncekeyError', code, message: expect.stringMatching(wayOut) })
  expect(runs).toBe(0)
}

function url(change: (url: URL) => void): string {
  const changed = new URL(database.url)
  change(changed)
  return changed.href
}

test('says that the database cannot be reached when nothing listens', async () => {
  const down = database.createPool({ connectionString: url((to) => (to.port = '1')) })
  await expectRefusal(down, 'store_unavailable', /check that it runs/)
})

test('says that the database cannot be reached when it stops under way', async () => {
  const server = await startPostgres()
  const pool = database.createPool({ connectionString: server.url })
  await expectRefusal(pool, 'schema_missing', /run migrate\(\)/)
  await server.stop()
  await expectRefusal(pool, 'store_unavailable', /check that it runs/)
})

test('survives the end of its own session by an administrator', async () => {
  const pool = database.createPool({ application_name: 'victim', max: 1 })
  const once = createOnce({ store: postgresStore(fromPg(pool)) })
  const run = (key: string) => once.execute({ ...request, key }, () => reply(200))
  expect((await run('before')).kind).toBe('executed')
  await database.pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'victim'`)
  expect((await run('after')).kind).toBe('executed')
})

test('says that the database is read-only', async () => {
  const pool = database.createPool({ options: '-c default_transaction_read_only=on' })
  await expectRefusal(pool, 'store_read_only', /Connect to the primary/)
})

test('says that the database is full, keeps the true answer, and stores it when there is room again', async () => {
  // The server's own error for a full disk, raised where a full disk would raise it: at the write.
  await database.pool.query(`
    create table disk (full_for_insert boolean not null, full_for_update boolean not null);
    insert into disk values (true, false);
    create sequence refused; -- counts although the statement is rolled back
    create function fill_disk() returns trigger language plpgsql as $$
      begin
        if (tg_op = 'INSERT' and (select full_for_insert from disk)) or (tg_op = 'UPDATE' and (select full_for_update from disk)) then
          perform nextval('refused');
          raise exception 'could not extend file: No space left on device' using errcode = 'disk_full';
        end if;
        return new;
      end $$;
    create trigger fill_disk before insert or update on oncekey.keys for each row execute function fill_disk();`)
  onTestFinished(async () => {
    await database.pool.query('drop trigger fill_disk on oncekey.keys; drop function fill_disk; drop table disk; drop sequence refused')
  })
  await expectRefusal(database.createPool(), 'store_full', /make room/)

  await database.pool.query('update disk set full_for_insert = false, full_for_update = true')
  const refusedBefore = Number((await database.pool.query('select last_value from refused')).rows[0].last_value)
  const once = createOnce({ store: postgresStore(fromPg(database.createPool())), lease: '30s' })
  const finishing = once.execute({ ...request, key: 'full' }, () => reply(201, 'charged'))
  await waitUntil('the finish has met the full disk twice', async () => {
    const { rows } = await database.pool.query('select last_value::integer >= $1 as met from refused', [refusedBefore + 2])
    return rows[0].met
  })
  await database.pool.query('update disk set full_for_update = false')
  expect(await finishing).toMatchObject({ kind: 'executed', stored: true })
})

test('says that the user has no rights', async () => {
  await database.pool.query('create role oncekey_stranger login')
  onTestFinished(async () => {
    await database.pool.query('drop role oncekey_stranger')
  })
  const stranger = database.createPool({ connectionString: url((to) => (to.username = 'oncekey_stranger')) })
  await expectRefusal(stranger, 'store_forbidden', /grant.* USAGE on schema oncekey/)
  await stranger.end()
})

test('says that the user may not connect to the database', async () => {
  const name = new URL(database.url).pathname.slice(1)
  await database.pool.query(`create role oncekey_outsider login; revoke connect on database ${name} from public`)
  onTestFinished(async () => {
    await database.pool.query(`grant connect on database ${name} to public; drop role oncekey_outsider`)
  })
  const outsider = database.createPool({ connectionString: url((to) => (to.username = 'oncekey_outsider')) })
  await expectRefusal(outsider, 'store_forbidden', /grant.* CONNECT on the database/)
  await outsider.end()
})

describe('a refused login', () => {
  const refusal = /^The database refused the login: check user and password/

  test('of a role that is not there, or may not log in', async () => {
    await database.pool.query('create role oncekey_no_login nologin')
    onTestFinished(async () => void (await database.pool.query('drop role oncekey_no_login')))
    for (const user of ['oncekey_no_login', 'oncekey_nowhere']) {
      await expectRefusal(database.createPool({ connectionString: url((to) => (to.username = user)) }), 'store_forbidden', refusal)
    }
  })

  test('because of the password', async () => {
    const server = await startPostgres()
    onTestFinished(() => server.stop())
    const pool = database.createPool({ connectionString: server.url })
    await pool.query(`create role oncekey_guarded login password 'right'`)
    const { rows } = await pool.query(`select current_setting('hba_file') as file`)
    await pool.query(`copy (values ('host all oncekey_guarded all scram-sha-256'), ('host all all all trust')) to '${rows[0].file}'`)
    await pool.query('select pg_reload_conf()')
    const address = new URL(server.url)
    address.username = 'oncekey_guarded'
    address.password = 'wrong'
    const guarded = () => database.createPool({ connectionString: address.href })
    await waitUntil('the password counts', () =>
      guarded()
        .query('select 1')
        .then(
          () => false,
          ({ code }) => code === '28P01',
        ),
    )
    await expectRefusal(guarded(), 'store_forbidden', refusal)
    await pool.end()
  })
})

test('says that there is no connection left', async () => {
  await database.pool.query('create role oncekey_crowd login connection limit 0')
  onTestFinished(async () => void (await database.pool.query('drop role oncekey_crowd')))
  const crowd = database.createPool({ connectionString: url((to) => (to.username = 'oncekey_crowd')) })
  await expectRefusal(crowd, 'store_unavailable', /^The database has no connection left: use smaller pools/)
})

test('says that the database does not exist', async () => {
  const pool = new pg.Pool({ connectionString: url((to) => (to.pathname = '/no_such_database')) })
  await expectRefusal(pool, 'store_unavailable', /^The database does not exist: check its name/)
  await pool.end()
})

test('does not call a mistake in the code an outage', async () => {
  const broken = postgresStore(
    fromPglite({
      query: async () => (undefined as unknown as { rows: unknown[] }).rows as never,
      transaction: async () => undefined as never,
    }),
  )
  await expect(broken.keyClaim(aClaim())).rejects.toMatchObject({ code: 'store_failed' })
})
