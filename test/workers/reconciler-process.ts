// A process that reconciles. It tells when it reads, when a round is over, and each time that it had no turn.
import pg from 'pg'
import { createOnce } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { reconciler } from '../../src/workers/index.js'
import { childSettings, tellParent } from '../support/in-child.js'

const { url, turnMs, hangs } = childSettings<{
  url: string
  turnMs: number
  /** Its first item never comes. */
  hangs: boolean
}>()
const once = createOnce({
  store: postgresStore(fromPg(new pg.Pool({ connectionString: url, max: 2 }))),
  onEvent(event) {
    if (event.type === 'worker-ran' && event.counts.rounds === 0) tellParent('no turn')
    if (event.type === 'worker-failed') tellParent((event.error as { code?: unknown }).code)
  },
})

reconciler(once, {
  name: 'charges',
  turn: turnMs,
  every: 200,
  async *local() {
    tellParent('reads')
    if (hangs) await new Promise(() => {})
    yield { id: 1 }
  },
  foreign: () => [{ id: 1 }],
  key: (item) => item.id,
  onDifference: () => tellParent('alarm'),
  onReport: ({ summary }) => tellParent(`equal: ${summary.equal}`),
}).start()
// A timer of its own: background work keeps no process alive.
setInterval(() => {}, 60_000)
