// A process that claims one key and works on it until it is told to finish.
import pg from 'pg'
import { createOnce, isOncekeyError, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { childSettings, tellParent, wordFromParent } from '../support/in-child.js'

export interface HolderSettings {
  url: string
  key: string
  lease: `${number}ms`
  /** Finishes by itself after so long, instead of waiting for a word. */
  workMs?: number
  /** How far this process's idea of the time is off. */
  clockSkewMs?: number
  /** Says at once when it hears that it lost its lease, and then waits for a word to finish. */
  tellLoss?: boolean
}

const { url, key, lease, workMs, clockSkewMs = 0, tellLoss = false } = childSettings<HolderSettings>()

if (clockSkewMs !== 0) {
  const RealDate = Date
  const skewed = () => RealDate.now() + clockSkewMs
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, parameters) => (parameters.length === 0 ? new target(skewed()) : Reflect.construct(target, parameters)),
    apply: () => new RealDate(skewed()).toString(),
    get: (target, name) => (name === 'now' ? skewed : Reflect.get(target, name)),
  })
}

const events: string[] = []
const pool = new pg.Pool({ connectionString: url })
const once = createOnce({
  store: postgresStore(fromPg(pool)),
  lease,
  onEvent({ type }) {
    events.push(type)
    if (tellLoss && type === 'lease-lost') tellParent(type)
  },
})

const told = wordFromParent()
const outcome = await once
  .execute(
    { tenant: 'crash', scope: 'crash', key, fingerprint: { value: key }, afterFailure: 'rerun' },
    async ({ signal, attempt, fence }) => {
      tellParent({ attempt, fence })
      if (workMs === undefined) await told
      else await new Promise((resolve) => setTimeout(resolve, workMs))
      events.push(signal.aborted ? 'signal-aborted' : 'signal-quiet')
      return reply(200, { by: process.pid })
    },
  )
  .catch((error: unknown) => ({ kind: isOncekeyError(error) ? error.code : String(error) }))

tellParent({ kind: outcome.kind, events })
await pool.end()
process.disconnect()
