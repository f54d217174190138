import { Body, Req, Res } from '@nestjs/common'
import type { NestExpressApplication } from '@nestjs/platform-express'
import type { NestFastifyApplication } from '@nestjs/platform-fastify'
import { describe, expect, test } from 'vitest'
import { Idempotent, serve, webhook } from '../../src/adapters/nest.js'
import { reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { platforms, startProtected, tenant, workController } from './nest-app.js'
import { isReplay, jsonOf } from './service.js'

const database = useDatabase()

const echo = workController((body: unknown) => ({ body: body ?? null }), { parameters: [Body()] })
const typed = (type: string, body: string) => ({ headers: { 'content-type': type }, body })

describe.each(platforms)('Nest on %s', (platform) => {
  test('JSON and forms are parsed for the handler, and compared by their bytes', async () => {
    const running = await startProtected(database, platform, () => ({ controllers: [echo] }))
    const big = '{"id":9007199254740993}'
    const [first, again] = await running.twice({ body: big })
    expect([jsonOf(first), isReplay(again)]).toEqual([{ body: { id: 9007199254740992 } }, true])
    expect((await running.send({ body: '{"id":9007199254740992}' })).status).toBe(422)
    const form = { ...typed('application/x-www-form-urlencoded', 'item=tea'), key: '"form"' }
    const [sent, sentAgain] = await running.twice(form)
    expect([jsonOf(sent), isReplay(sentAgain)]).toEqual([{ body: { item: 'tea' } }, true])
    expect((await running.send({ ...form, body: 'item=coffee' })).status).toBe(422)
  })

  test('a request without a body', async () => {
    const running = await startProtected(database, platform, () => ({ controllers: [echo] }))
    const bare = { headers: {}, body: null }
    expect(isReplay((await running.twice(bare))[1])).toBe(true)
    expect((await running.send()).status).toBe(422)
  })

  test('without rawBody: true it refuses to guess, and says what to do; nothing runs', async () => {
    let runs = 0
    const running = await startProtected(database, platform, () => ({
      controllers: [workController(() => ({ runs: ++runs }))],
      options: { rawBody: false },
    }))
    expect((await running.send()).status).toBe(500)
    expect(running.log.join()).toContain('{ rawBody: true }')
    expect([runs, running.events]).toEqual([0, []])
    // Without a body there is nothing to miss, nor without a key.
    expect((await running.send({ headers: {}, body: null })).status).toBe(200)
    expect((await running.send({ key: null })).status).toBe(200)
  })

  test('webhook() says the same, and knows no way around it', async () => {
    const running = await startProtected(database, platform, ({ once }) => {
      const consumer = once.consumer('nest.unsigned', { tenant: 'single' }, () => {})
      const work = webhook(consumer, { verify: () => ({ id: 'm', body: null }) })
      const controller = workController(work, { decorators: [Idempotent(false)], parameters: [Req(), Res()] })
      return { controllers: [controller], options: { rawBody: false } }
    })
    expect((await running.send()).status).toBe(500)
    expect(running.log.join()).toContain('{ rawBody: true }')
    expect(running.log.join()).not.toContain('fingerprint')
  })

  test('serve() says the same', async () => {
    const running = await startProtected(database, platform, ({ once }) => {
      const work = serve(
        once.operation('nest.gone', {}, async () => reply(201)),
        { tenant },
      )
      const controller = workController(work, { decorators: [Idempotent(false)], parameters: [Req(), Res()] })
      return { controllers: [controller], options: { rawBody: false } }
    })
    expect((await running.send()).status).toBe(500)
    expect(running.log.join()).toContain('{ rawBody: true }')
  })

  test("fingerprint: 'parsed' makes do without the bytes", async () => {
    const running = await startProtected(database, platform, () => ({ controllers: [echo], options: { rawBody: false } }), {
      options: { fingerprint: 'parsed' },
    })
    const [first, again] = await running.twice({ body: '{"a":1,"b":2}' })
    expect([jsonOf(first), isReplay(again)]).toEqual([{ body: { a: 1, b: 2 } }, true])
    expect(isReplay(await running.send({ body: '{ "b": 2, "a": 1 }' }))).toBe(true)
    expect((await running.send({ body: '{"a":1,"b":3}' })).status).toBe(422)
  })

  test('other media types: by a parser of their own, and by the stream that nobody has read', async () => {
    const running = await startProtected(database, platform, () => ({
      controllers: [echo],
      main(app) {
        if (platform === 'Express') (app as NestExpressApplication).useBodyParser('text')
        else (app as NestFastifyApplication).useBodyParser('text/plain', {}, (_request, body, done) => done(null, String(body)))
      },
    }))
    const [first, again] = await running.twice(typed('text/plain', 'tea'))
    expect([jsonOf(first), isReplay(again)]).toEqual([{ body: 'tea' }, true])
    expect((await running.send(typed('text/plain', 'coffee'))).status).toBe(422)
    if (platform === 'Fastify') return
    const unread = { ...typed('application/x-unknown', 'tea'), key: '"unread"' }
    expect(isReplay((await running.twice(unread))[1])).toBe(true)
    expect((await running.send({ ...unread, body: 'coffee' })).status).toBe(422)
  })

  test('what the parser refuses is not a use of the key', async () => {
    const running = await startProtected(database, platform, () => ({ controllers: [echo] }))
    expect((await running.send({ body: '{"item":' })).status).toBe(400)
    expect(running.events).toEqual([])
    expect((await running.send()).status).toBe(200)
  })

  test('over maxBodyBytes: a 413 of the layer, and nothing has run', async () => {
    const running = await startProtected(database, platform, () => ({ controllers: [echo] }), { options: { maxBodyBytes: 10 } })
    const refused = await running.send()
    expect([refused.status, jsonOf(refused).code, running.events]).toEqual([413, 'body_too_large', []])
    expect(running.log).toEqual([])
  })
})
