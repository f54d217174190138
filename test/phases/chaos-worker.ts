// A process that carries out orders again and again until all are done, and may die by SIGKILL at any crash point on the way.
import pg from 'pg'
import { isOncekeyError } from '../../src/index.js'
import { armCrashPoints } from '../../src/testing/index.js'
import { childSettings, tellParent } from '../support/in-child.js'
import { ordersService } from './orders.js'
import { seededRandom } from './seeded-random.js'

const { url, provider, ids, seed, crashOneIn } = childSettings<{
  url: string
  provider: string
  ids: string[]
  seed: number
  crashOneIn: number
}>()
const random = seededRandom(seed)
const pool = new pg.Pool({ connectionString: url, max: 6 })
const { createOrder } = ordersService(pool, provider, 'resend', { lease: '1s' })
armCrashPoints(() => {
  if (random() < 1 / crashOneIn) process.kill(process.pid, 'SIGKILL')
})

const left = new Set(ids)

/** Whatever is complete needs no more attention, whoever did it. */
async function forgetComplete() {
  const { rows } = await pool.query(`select key from oncekey.keys where tenant = 'chaos' and state = 'complete'`)
  for (const { key } of rows) left.delete(key)
}

async function worker() {
  for (let turn = 0; left.size > 0; turn += 1) {
    if (turn % 20 === 0) await forgetComplete()
    if (left.size === 0) return
    const open = [...left]
    const id = open[Math.floor(random() * open.length)] as string
    const retry = () => createOrder.run({ tenant: 'chaos', key: id, input: { id } })
    const resume = () => createOrder.resume({ tenant: 'chaos', key: id }).catch(retry)
    const kind = await (random() < 0.8 ? retry() : resume()).then(
      (outcome) => outcome.kind,
      // On a busy machine a lease of a second runs out under a live holder, too; its client would ask again.
      (error: unknown) => {
        if (isOncekeyError(error) && error.code === 'lease_lost') return 'lost'
        throw error
      },
    )
    if (kind === 'executed' || kind === 'replayed') left.delete(id)
    // Nobody asks for one order without a pause; and the processors are for those who work.
    else await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
await Promise.all(Array.from({ length: 6 }, worker))
tellParent('done')
await pool.end()
process.disconnect()
