// `npm start`: a payment provider, the orders service, and the same service without oncekey, each in a process of its own that may die. This
// one stays, starts them again, and serves the page.
import { existsSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createFront, type Processes } from './front.js'
import { supervise } from './supervised.js'
import { whatToTry } from './what-to-try.js'

const port = Number(process.env.PORT ?? 3000)
const folder = process.env.DATA_DIR ?? '.data/orders'
let processes: Processes | undefined

const front = createFront(() => processes)
front.once('error', (error: NodeJS.ErrnoException) => {
  const taken = `Port ${port} is taken. Choose another one, and a folder of its own if that is this example too:

  PORT=${port + 1} DATA_DIR=.data/second npm start`
  console.error(error.code === 'EADDRINUSE' ? taken : error.message)
  process.exit(1)
})
front.listen(port, '127.0.0.1', () => void start((front.address() as AddressInfo).port))

async function start(frontPort: number): Promise<void> {
  try {
    console.log(process.env.DATABASE_URL ? 'Starting, on the database of DATABASE_URL.' : `Starting, on embedded Postgres in ${folder}.`)
    if (!process.env.DATABASE_URL && !existsSync(`${folder}/empty`))
      console.log('  Its files are made at the first start, which takes a few seconds.')
    // One after the other: the first one makes the empty database that the others copy.
    const provider = await supervise('provider', './provider.ts', { LEDGER: `${folder}/provider.jsonl` })
    const service = await supervise('oncekey', './service.ts', { FOLDER: `${folder}/service`, PROVIDER: provider.url })
    const naive = await supervise('without', './naive.ts', { FOLDER: `${folder}/naive`, PROVIDER: provider.url })
    processes = { provider, service, naive }
    console.log(whatToTry(`http://localhost:${frontPort}`))
  } catch (error) {
    console.error((error as Error).message)
    process.exit(1)
  }
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)

async function stop(): Promise<void> {
  console.log('\nStopping.')
  // The provider last: what is under way may still need it.
  await Promise.all([processes?.service.stop(), processes?.naive.stop()])
  await processes?.provider.stop()
  process.exit()
}
