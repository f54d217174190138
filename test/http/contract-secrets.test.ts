import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { type Answer, createOnce, type EncryptionOptions, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay, problemOf } from './seen.js'
import { everywhere, leaseMs, type ProfileName, type SurfaceName, setup, type Work } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'
const secretive: Work = () => reply(201, { token: 'hunter2' }, { location: '/tokens/1', 'x-session': 'hunter2' })

describe.each(everywhere)('secrets in answers of %s() in the %s profile', (surface, profile) => {
  test('R2 headers of neverStore reach the first caller only', async () => {
    const { on } = await setup(database, profile, { neverStore: ['X-Session'] })
    const { send } = on(surface, {}, secretive)
    const [first, again] = [await send({ key, body }), await send({ key, body })]
    expect([first, again].map(({ header }) => [header('x-session'), header('location')])).toEqual([
      ['hunter2', '/tokens/1'],
      [undefined, '/tokens/1'],
    ])
    expect(again.bytes).toEqual(first.bytes)
  })

  test('redact: the first caller gets the whole answer, a replay what is left of it, n=1', async () => {
    const redact = ({ status }: Answer) => reply(status, { token: 'shown once' })
    const { on } = await setup(database, profile, { redact })
    const { send, runs } = on(surface, {}, secretive)
    const [first, again] = [await send({ key, body }), await send({ key, body })]
    expect([first.json, again.json]).toEqual([{ token: 'hunter2' }, { token: 'shown once' }])
    expect([isReplay(again), again.status, again.header('x-session'), runs()]).toEqual([true, 201, undefined, 1])
  })

  test('redact that throws: the first caller gets the whole answer, a replay is told that it was not kept, n=1', async () => {
    const redact = () => {
      throw new Error('a mistake')
    }
    const { on, events } = await setup(database, profile, { redact })
    const { send, runs } = on(surface, {}, secretive)
    expect((await send({ key, body })).json).toEqual({ token: 'hunter2' })
    const again = await send({ key, body })
    expect(problemOf(again)).toEqual({ status: 410, code: 'answer_not_kept' })
    expect(JSON.stringify(again)).not.toContain('hunter2')
    expect([events.includes('redaction-failed'), runs()]).toEqual([true, 1])
  })

  test('encryption: a replay has the same bytes and headers, and the table has neither, but the id of the key', async () => {
    const { on, caller } = await setup(database, profile, { encryption: { keys: [newKey('may')] } })
    const { send, runs } = on(surface, {}, secretive)
    const [first, again] = [await send({ key, body }), await send({ key, body })]
    expect([isReplay(again), again.bytes, again.header('x-session'), runs()]).toEqual([true, first.bytes, 'hunter2', 1])
    const { rows } = await database.pool.query(
      `select answer_headers, encode(answer_body, 'escape') as body from oncekey.keys where tenant = $1`,
      [caller],
    )
    expect(JSON.stringify(rows)).not.toContain('hunter2')
    expect(rows.map(({ answer_headers }) => JSON.parse(answer_headers))).toEqual([[['oncekey-sealed', 'may']]])
  })

  test('encryption: after a rotation old answers are replayed; without their key the retry is an error, and nothing runs', async () => {
    const [may, june] = [newKey('may'), newKey('june')]
    const common = await setup(database, profile)
    const before = await deployed(common, surface, profile, { keys: [may] })
    const first = await before.send({ key, body })
    const after = await deployed(common, surface, profile, { keys: [june, may] })
    expect((await after.send({ key, body })).bytes).toEqual(first.bytes)
    for (const encryption of [{ keys: [june] }, undefined]) {
      const without = await deployed(common, surface, profile, encryption)
      await expect(without.send({ key, body })).rejects.toMatchObject({ code: 'encryption_key_missing' })
      expect(without.runs()).toBe(0)
    }
  })
})

const newKey = (id: string) => ({ id, key: randomBytes(32) })

/** The same route of the same service, with other keys. */
async function deployed(
  { handler, operation }: Awaited<ReturnType<typeof setup>>,
  surface: SurfaceName,
  profile: ProfileName,
  encryption: EncryptionOptions | undefined,
) {
  const store = postgresStore(fromPg(database.pool))
  const on = createOnce<pg.PoolClient>({ store, lease: leaseMs, ...(encryption ? { encryption } : {}) })
  return surface === 'serve' ? operation({ profile }, secretive, { on, name: 'tokens.create' }) : handler({ profile }, secretive, on)
}
