import { Readable } from 'node:stream'
import { Req, StreamableFile } from '@nestjs/common'
import { defer } from 'rxjs'
import { describe } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { exerciseEndings } from './endings.js'
import { platforms, startProtected, workController } from './nest-app.js'

const database = useDatabase()

const asNestLikesIt = (value: unknown) => (value instanceof Readable ? new StreamableFile(value) : value)

describe.each(platforms)('Nest on %s', (platform) => {
  describe('a handler with a promise', () => {
    exerciseEndings(database, async ({ service, options, handle }) => {
      const work = async (request: object) => asNestLikesIt(await handle(request))
      return startProtected(database, platform, () => ({ controllers: [workController(work, { parameters: [Req()] })] }), {
        service,
        options,
      })
    })
  })

  // Nest ends such a one when its client goes.
  describe('a handler with an observable', () => {
    exerciseEndings(database, async ({ service, options, handle }) => {
      const work = (request: object) => defer(async () => asNestLikesIt(await handle(request)))
      return startProtected(database, platform, () => ({ controllers: [workController(work, { parameters: [Req()] })] }), {
        service,
        options,
      })
    })
  })
})
