import { DBOS } from '@dbos-inc/dbos-sdk'
import { createOnce, reply } from 'oncekey'
import { fromPg, postgresStore } from 'oncekey/postgres'
import type { Contender, Group } from '../harness/contender.js'
import { closedLoop } from '../harness/load.js'
import { interleave, mostFirst, type Rounds } from '../harness/rounds.js'
import type { BenchServer } from '../harness/server.js'
import { twoStepTitle } from './titles.js'

export const twoStepNames = { oncekey: 'oncekey, operation', dbos: 'DBOS, workflow' } as const

const note = 'a'.repeat(260)
const charge = async (order: string) => ({ charge: `ch_${order}` })

/** A request that writes an order, calls a provider (which answers at once), and is answered, by a key of the client's. */
export async function measureTwoSteps(server: BenchServer, { rounds, seconds, notes }: Rounds & { notes: string[] }): Promise<Group[]> {
  await server.admin.query('create table if not exists bench_orders (id uuid primary key, item text not null)')
  const contenders: Contender[] = [oncekey(server)]
  const dbos = await startDbos(server).catch((error: Error) => void notes.push(`DBOS does not run here: ${error.message}`))
  if (dbos) contenders.push(dbos)
  const prepare = async () => {
    await server.admin.query('truncate bench_orders')
    await server.reset()
  }
  const groups: Group[] = []
  for (const outstanding of mostFirst([1, 64])) {
    groups.unshift(await interleave({ title: twoStepTitle(outstanding), outstanding, rounds, seconds, contenders, prepare }))
  }
  if (dbos) {
    await DBOS.shutdown()
    await server.admin.query('drop database bench_dbos with (force)')
  }
  await server.admin.query('drop table bench_orders')
  return groups
}

function oncekey(server: BenchServer): Contender {
  const once = createOnce({ store: postgresStore(fromPg(server.pool(16))) })
  const createOrder = once.operation('orders.create', {}, async (run, input) => {
    const order = await run.phase('order_created', async (tx) => {
      const id = crypto.randomUUID()
      await tx.query('insert into bench_orders (id, item) values ($1, $2)', [id, (input as { item: string }).item])
      return id
    })
    const charged = await run.call('charged', () => charge(order))
    return reply(201, { order, ...charged, note })
  })
  return {
    name: twoStepNames.oncekey,
    run: (turn) =>
      closedLoop(turn, server.cpu, async () => {
        const outcome = await createOrder.run({ tenant: 'bench', key: crypto.randomUUID(), input: { item: 'tea' } })
        if (outcome.kind !== 'executed') throw new Error(`a new key was run, and the outcome is "${outcome.kind}"`)
      }),
  }
}

/** As its documentation says: a workflow of two steps, started under the client's key as its id. */
async function startDbos(server: BenchServer): Promise<Contender> {
  const database = new URL(server.url)
  database.pathname = '/bench_dbos'
  await server.admin.query('drop database if exists bench_dbos')
  DBOS.setConfig({ name: 'bench', systemDatabaseUrl: database.href, logLevel: 'error', runAdminServer: false })
  const pool = server.pool(16)
  const createOrder = DBOS.registerWorkflow(
    async (item: string) => {
      const order = await DBOS.runStep(
        async () => {
          const id = crypto.randomUUID()
          await pool.query('insert into bench_orders (id, item) values ($1, $2)', [id, item])
          return id
        },
        { name: 'order_created' },
      )
      const charged = await DBOS.runStep(() => charge(order), { name: 'charged' })
      return { order, ...charged, note }
    },
    { name: 'createOrder' },
  )
  await DBOS.launch()
  return {
    name: twoStepNames.dbos,
    run: (turn) =>
      closedLoop(turn, server.cpu, async () => {
        const handle = await DBOS.startWorkflow(createOrder, { workflowID: crypto.randomUUID() })('tea')
        await handle.getResult()
      }),
  }
}
