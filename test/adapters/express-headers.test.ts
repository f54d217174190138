// Headers of middleware in front of the layer are fresh at each replay; those of middleware behind it are part of the answer.
import type { RequestHandler } from 'express'
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { dependencyOf, frameworks, type Mounted, startMounted } from './express-service.js'
import { replaysAlike, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

const onHeaders = dependencyOf<(response: unknown, listener: () => void) => void>('compression', 'on-headers')
const cors = dependencyOf<() => RequestHandler>('@nestjs/platform-express', 'cors')

describe.each(frameworks)('%s', (_, framework) => {
  const start = (mounted: Mounted) => startMounted(framework, database, mounted)

  test('headers that are set in front are fresh at each replay', async () => {
    let number = 0
    const service = await start({
      before(_request, response, next) {
        number += 1
        response.setHeader('x-number', number)
        onHeaders(response, () => response.setHeader('x-when-sent', number))
        next()
      },
    })
    const answers = [await service.send(), await service.send(), await service.send({ body: '{}' })]
    expect(answers.map(({ lines }) => [lines('x-number'), lines('x-when-sent')])).toEqual([
      [['1'], ['1']],
      [['2'], ['2']],
      [['3'], ['3']],
    ])
  })

  test('stripe: a Request-Id that is set in front is the true one: replays have their own, and tell the first', async () => {
    let number = 0
    const service = await start({
      before(_request, response, next) {
        number += 1
        response.setHeader('Request-Id', `req_${number}`)
        next()
      },
      options: { profile: 'stripe' },
    })
    const answers = [await service.send(), await service.send(), await service.send({ body: '{}' })]
    expect(answers.map(({ status, lines }) => [status, lines('request-id'), lines('original-request')])).toEqual([
      [200, ['req_1'], []],
      [200, ['req_2'], ['req_1']],
      [400, ['req_3'], []],
    ])
  })

  test('headers that are set behind are part of the answer', async () => {
    let number = 0
    const service = await start({
      behind(_request, response, next) {
        number += 1
        response.setHeader('x-number', number)
        onHeaders(response, () => response.setHeader('x-when-sent', number))
        next()
      },
    })
    const first = await replaysAlike(service, {}, ['x-number', 'x-when-sent'])
    expect([first.lines('x-number'), first.lines('x-when-sent')]).toEqual([['1'], ['1']])
  })

  test('what a handler makes of a header that was set in front is part of the answer', async () => {
    let number = 0
    const service = await start({
      before(_request, response, next) {
        number += 1
        response.setHeader('x-number', number).setHeader('x-other', number)
        next()
      },
      answer: (response) => response.setHeader('x-number', 'mine').append('X-Other', 'more').send('tea'),
    })
    const first = await replaysAlike(service, {}, ['x-number', 'x-other'])
    expect([first.lines('x-number'), first.lines('x-other')]).toEqual([['mine'], ['1', 'more']])
  })

  test.each(['in front', 'behind'])('cors and security headers, %s: on answers, replays and refusals', async (where) => {
    const headers: RequestHandler = (request, response, next) => {
      response.setHeader('strict-transport-security', 'max-age=1')
      response.removeHeader('x-powered-by')
      cors()(request, response, next)
    }
    const service = await start(where === 'in front' ? { before: headers } : { behind: headers })
    const names = ['access-control-allow-origin', 'strict-transport-security']
    const first = await replaysAlike(service, {}, names)
    expect(names.map((name) => first.lines(name))).toEqual([['*'], ['max-age=1']])
    const refused = await service.send({ body: '{}' })
    expect(refused.lines('strict-transport-security').length).toBe(where === 'in front' ? 1 : 0)
  })
})
