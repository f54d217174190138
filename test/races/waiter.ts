// A process that wants a key which somebody else works on, and waits for it. It says so as soon as it has been told to wait.
import pg from 'pg'
import { createOnce, type Duration, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { childSettings, tellParent } from '../support/in-child.js'

const { url, key, wait } = childSettings<WaiterSettings>()

export interface WaiterSettings {
  url: string
  key: string
  wait: Duration
}

export interface Waited {
  kind: string
  answer: { status: number; body: number[] } | null
  attempt: number | null
  events: string[]
}

const pool = new pg.Pool({ connectionString: url, max: 2 })
const store = postgresStore(fromPg(pool))
const events: string[] = []
let met = false
const once = createOnce({
  store: {
    ...store,
    async keyClaim(claim) {
      const verdict = await store.keyClaim(claim)
      if (!met) tellParent(verdict.kind)
      met = true
      return verdict
    },
  },
  onEvent: ({ type }) => void events.push(type),
})
let attempt: number | null = null
const outcome = await once.execute(
  { tenant: 'wait', scope: 'wait', key, fingerprint: { value: key }, afterFailure: 'rerun', lease: '10m', wait },
  (run) => {
    attempt = run.attempt
    return reply(200, { by: process.pid })
  },
)
const answer = 'answer' in outcome ? { status: outcome.answer.status, body: [...outcome.answer.body] } : null
tellParent({ kind: outcome.kind, answer, attempt, events } satisfies Waited)
await pool.end()
process.disconnect()
