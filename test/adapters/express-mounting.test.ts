import type { RequestHandler } from 'express'
import { describe, expect, test } from 'vitest'
import { header } from '../../src/adapters/express.js'
import { useDatabase } from '../support/postgres/database.js'
import { frameworks, startExpress } from './express-service.js'
import { replaysAlike, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

describe.each(frameworks)('%s', (_, framework) => {
  test('mounted twice, it protects once', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect())
      app.post('/work', protect({ afterFailure: 'park' }), (_request, response) => void response.send(`run ${ran()}`))
    })
    await replaysAlike(service)
    expect((await service.send()).lines('idempotent-replayed')).toEqual(['true'])
  })

  test('a tenant that cannot be found, with nothing thrown to say why: the handler does not run', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran, keepErrors }) => {
      app.use(protect({ tenant: () => Promise.reject(undefined) }))
      app.post('/work', (_request, response) => void response.send(`run ${ran()}`))
      app.use(keepErrors)
    })
    expect((await service.send()).status).toBe(500)
    expect(service.runs()).toBe(0)
  })

  test('one that lets a request pass leaves it to the next one', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect({ key: header('X-Other-Key') }))
      app.post('/work', protect(), (_request, response) => void response.send(`run ${ran()}`))
    })
    await replaysAlike(service)
  })

  test('on a router under a path, the whole path counts', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      for (const path of ['/teas', '/coffees']) {
        const router = framework.Router()
        router.use(protect())
        router.post('/work', (request, response) => void response.send(`run ${ran()} of ${request.url}`))
        app.use(path, router)
      }
    })
    const bodies = []
    for (const path of ['/teas/work', '/coffees/work', '/teas/work']) bodies.push((await service.send({ path })).body.toString())
    expect(bodies).toEqual(['run 1 of /work', 'run 2 of /work', 'run 1 of /work'])
    expect(await service.keyState('/teas/work')).toBe('complete')
    expect((await service.send({ path: '/teas/work?strong=1' })).status).toBe(422)
  })

  test('routes with options of their own', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      const fail: RequestHandler = (_request, response) => void response.status(500).send(`run ${ran()}`)
      app.post('/rerun', protect({ afterFailure: 'rerun' }), fail)
      app.post('/store', protect({ afterFailure: 'store' }), fail)
      app.post('/park', protect({ afterFailure: 'park', required: true }), fail)
      app.put('/put', protect({ methods: ['PUT'] }), (_request, response) => void response.send(`run ${ran()}`))
      app.post('/free', (_request, response) => void response.send(`run ${ran()}`))
    })
    const twice = async (path: string, method = 'POST') => {
      const answers = [await service.send({ path, method }), await service.send({ path, method })]
      return answers.map(({ status, body }) => `${status} ${body.toString().slice(0, 5)}`)
    }
    expect(await twice('/rerun')).toEqual(['500 run 1', '500 run 2'])
    expect(await twice('/store')).toEqual(['500 run 3', '500 run 3'])
    expect(await twice('/park')).toEqual(['500 run 4', '500 {"typ'])
    expect(await twice('/put', 'PUT')).toEqual(['200 run 5', '200 run 5'])
    expect(await twice('/free')).toEqual(['200 run 6', '200 run 7'])
    expect((await service.send({ path: '/park', key: null })).status).toBe(400)
  })
})
