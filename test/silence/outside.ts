import { createServer } from 'node:http'
import { onTestFinished } from 'vitest'

/** The other side: a provider that honours keys, a place where effects are noted that no key protects, and the receiver of jobs. */
export interface Outside {
  readonly url: string
  /** The orders that were charged, by the key that the provider got. */
  readonly charges: ReadonlyMap<string, string>
  /** The keys of the requests whose work ran, once for each run. */
  readonly runs: readonly string[]
  /** What was delivered, by the id of the job. */
  readonly jobs: ReadonlyMap<string, { readonly key: string; times: number }>
  /** Receives no job until the returned function is called. */
  hold(): () => void
}

export async function startOutside(): Promise<Outside> {
  const charges = new Map<string, string>()
  const runs: string[] = []
  const jobs = new Map<string, { key: string; times: number }>()
  let held = Promise.resolve()

  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk
    if (request.url === '/charges') {
      const key = String(request.headers['idempotency-key'])
      if (!charges.has(key)) charges.set(key, body)
    } else if (request.url === '/runs') {
      runs.push(body)
    } else {
      await held
      const { id, key } = JSON.parse(body) as { id: string; key: string }
      const known = jobs.get(id)
      if (known) known.times += 1
      else jobs.set(id, { key, times: 1 })
    }
    response.end('ok')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    charges,
    runs,
    jobs,
    hold() {
      let release = () => {}
      held = new Promise((resolve) => {
        release = resolve
      })
      return release
    },
  }
}
