import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { shown, table } from '../harness/report.js'
import type { Rounds } from '../harness/rounds.js'
import type { BenchServer } from '../harness/server.js'
import { type Spread, spread } from '../layout/summary.js'

const liveRequests = 10_000
const ways = { bare: 'the handler alone', oncekey: 'in once.execute' } as const
const run = promisify(execFile)
const program = fileURLToPath(new URL('./live-requests.ts', import.meta.url))

interface Measured {
  /** Heap and buffers while all requests are live. */
  readonly bytes: Spread
  readonly residentBytes: Spread
  /** Heap and buffers after all of them have ended. */
  readonly leftBytes: Spread
}

export type Memory = Readonly<Record<keyof typeof ways, Measured>>

/** What 10,000 requests hold whose handlers are under way, each round in a process of its own. */
export async function measureMemory(server: BenchServer, { rounds }: Pick<Rounds, 'rounds'>): Promise<Memory> {
  const taken: Record<string, Record<keyof Measured, number>[]> = { bare: [], oncekey: [] }
  for (let round = 1; round <= rounds; round += 1) {
    await server.reset()
    for (const way of Object.keys(ways)) {
      const parameters = ['--expose-gc', '--import', 'tsx', program, way, String(liveRequests), server.url]
      taken[way]?.push(JSON.parse((await run(process.execPath, parameters)).stdout))
    }
    console.error(`  memory: round ${round} of ${rounds}`)
  }
  const measured = (way: keyof typeof ways): Measured => {
    const column = (name: keyof Measured) => spread((taken[way] ?? []).map((each) => each[name]))
    return { bytes: column('bytes'), residentBytes: column('residentBytes'), leftBytes: column('leftBytes') }
  }
  const memory = { bare: measured('bare'), oncekey: measured('oncekey') }
  if (!(memory.oncekey.bytes.median > 0)) throw new Error('memory: 10,000 live requests took no memory, so none was live')
  return memory
}

export function memoryTable(memory: Memory): string {
  const mebibytes = ({ median, min, max }: Spread) => shown({ median: median / 2 ** 20, min: min / 2 ** 20, max: max / 2 ** 20 }, 1)
  const rows = (Object.keys(ways) as (keyof typeof ways)[]).map((way) => {
    const { bytes, residentBytes, leftBytes } = memory[way]
    return [ways[way], mebibytes(bytes), String(Math.round(bytes.median / liveRequests)), mebibytes(residentBytes), mebibytes(leftBytes)]
  })
  const head = ['10,000 live requests', 'heap and buffers, MiB', 'bytes per request', 'resident, MiB', 'left when they have ended, MiB']
  return `### Memory\n\n${table(head, rows)}\n`
}
