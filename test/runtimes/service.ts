// A small service on what all runtimes share: run by Bun, Deno and workerd, from the built package.
import { Hono } from 'hono'
import { createOnce, type Store } from 'oncekey'
import { idempotency as protectFetch } from 'oncekey/fetch'
import { idempotency as protectHono } from 'oncekey/hono'

/** What the process has seen. */
const seen = { runs: 0, heartbeats: 0 }
const released = new Set<string | undefined>()

/** `POST /fetch` and `POST /hono` do the work, `POST /release/x` lets go on what `X-Hold: x` stops, `GET /seen` counts. */
export function serviceOf<Tx>(store: Store<Tx>): (request: Request) => Promise<Response> {
  const once = createOnce({ store: counted(store), lease: '3s' })
  const tenantOf = (request: Request) => request.headers.get('x-tenant') ?? 'none'

  async function work(request: Request): Promise<Response> {
    seen.runs += 1
    const run = seen.runs
    const { byteLength } = await request.arrayBuffer()
    const hold = request.headers.get('x-hold')
    // A timer, and not a promise of another request: workerd lets no request wait for another one's.
    while (hold !== null && !released.has(hold)) await new Promise((resolve) => setTimeout(resolve, 10))
    return Response.json({ run, byteLength }, { status: 201, headers: { 'x-run': String(run) } })
  }

  const fetching = protectFetch(once, { tenant: tenantOf, afterFailure: 'rerun' })(work)
  const app = new Hono()
  app.get('/seen', (c) => c.json(seen))
  app.post('/release/:hold', (c) => {
    released.add(c.req.param('hold'))
    return c.body(null, 204)
  })
  app.post('/fetch', (c) => fetching(c.req.raw))
  app.use('/hono', protectHono(once, { tenant: (c) => tenantOf(c.req.raw), afterFailure: 'rerun' }))
  app.post('/hono', (c) => work(c.req.raw))
  return async (request) => app.fetch(request)
}

function counted<Tx>(store: Store<Tx>): Store<Tx> {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'keyHeartbeat') seen.heartbeats += 1
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}
