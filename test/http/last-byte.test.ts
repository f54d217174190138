import { describe, expect, test } from 'vitest'
import { serve } from '../../src/adapters/node.js'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { open, post } from './client.js'
import { listening, protectOn } from './listening.js'

const database = useDatabase()

const body = '{"amount":100}'
const key = '"k"'

describe('the last byte of an answer', () => {
  /** Holds the row of the key, so that no answer can be stored, until it is let go. */
  async function holdKey(tenant: string) {
    const holder = await database.pool.connect()
    await holder.query('begin')
    const { rowCount } = await holder.query('select from oncekey.keys where tenant = $1 for update', [tenant])
    expect(rowCount).toBe(1)
    const holderPid = (await holder.query('select pg_backend_pid() as pid')).rows[0].pid
    return {
      /** It found the row locked, asked why, and tries again until it is let go. */
      async untilFinishWaits() {
        await waitUntil('the finish has found the row locked', async () => {
          const { rows } = await database.pool.query(
            `select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query like '%as marked, %'
              and query_start > (select xact_start from pg_stat_activity where pid = $1)`,
            [holderPid],
          )
          return rows.length > 0
        })
      },
      async letGo() {
        await holder.query('commit')
        holder.release()
      },
    }
  }

  /** All that has come of an answer so far, looked at only after the server has had a turn to send what it has. */
  function watch(port: number) {
    let text = ''
    let ended = false
    let begun = false
    open(port, { key, body }, (response) => {
      begun = true
      response.on('data', (piece: Buffer) => {
        text += piece.toString('latin1')
      })
      response.on('end', () => {
        ended = true
      })
    })
    return {
      async soFar() {
        expect((await post(port, { path: '/ping', method: 'GET' })).text).toBe('pong')
        await new Promise((resolve) => setImmediate(resolve))
        return { begun, text, ended }
      },
      end: () => waitUntil('the answer has ended', () => ended),
    }
  }

  test('R6 of an opaque handler leaves only after the answer is stored', async () => {
    let hold: Awaited<ReturnType<typeof holdKey>> | undefined
    const { port, tenant, send } = await protectOn(database, async (_, response) => {
      hold = await holdKey(tenant)
      response.writeHead(201, { 'Content-Type': 'text/plain' })
      response.write('half and ')
      response.end('half')
    })
    const watched = watch(port)
    await waitUntil('the handler holds the key', () => hold)
    await hold?.untilFinishWaits()
    expect(await watched.soFar()).toEqual({ begun: false, text: '', ended: false })
    await hold?.letGo()
    await watched.end()
    expect((await watched.soFar()).text).toBe('half and half')
    expect((await send({ key, body })).text).toBe('half and half')
  })

  test.each<[string, readonly string[]]>([
    ['', []],
    [', also if empty pieces come behind it,', ['', '']],
  ])('R6 of a stream over the size cap%s leaves only after the record is written', async (_name, behind) => {
    let hold: Awaited<ReturnType<typeof holdKey>> | undefined
    const { port, tenant, runs, send } = await protectOn(
      database,
      async (_, response) => {
        hold = await holdKey(tenant)
        for (const piece of ['first ', 'second ', 'third ', 'last']) response.write(piece.padEnd(100))
        for (const nothing of behind) response.write(nothing)
        response.end('')
      },
      { maxAnswerBytes: 50 },
    )
    const watched = watch(port)
    await waitUntil('the handler holds the key', () => hold)
    await hold?.untilFinishWaits()
    const { text, ended } = await watched.soFar()
    expect({ ended, last: text.includes('last') }).toEqual({ ended: false, last: false })
    await hold?.letGo()
    await watched.end()
    expect((await watched.soFar()).text).toHaveLength(400)
    expect((await send({ key, body })).status).toBe(410)
    expect(runs()).toBe(1)
  })

  test('R6 of an operation leaves only after the answer is stored', async () => {
    const once = createOnce({ store: postgresStore(fromPg(database.pool)), lease: '10m' })
    const tenant = crypto.randomUUID()
    let hold: Awaited<ReturnType<typeof holdKey>> | undefined
    const operation = once.operation('orders.create', {}, async () => {
      hold = await holdKey(tenant)
      return reply(201, { order: 1 })
    })
    const { port, send } = await listening(serve(operation, { tenant: () => tenant }))
    const watched = watch(port)
    await waitUntil('the operation holds the key', () => hold)
    await hold?.untilFinishWaits()
    expect(await watched.soFar()).toEqual({ begun: false, text: '', ended: false })
    await hold?.letGo()
    await watched.end()
    expect((await send({ key, body })).json).toEqual({ order: 1 })
  })
})
