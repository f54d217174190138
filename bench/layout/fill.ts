import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { fingerprintBytes, headersText } from './requests.js'
import type { Subject } from './workload.js'

const chunkRows = 50_000

/** Finished rows, as if they had been claimed and finished; the indexes grow row by row, so that their pages split as in life. */
export async function fillRows(clients: readonly pg.Client[], subject: Subject, rows: number) {
  const { copy, layout, name, bodyBytes } = subject
  const begin = performance.now()
  const answers = copy.tables.at(-1) as string
  const [first] = clients as [pg.Client]
  await first.query(`alter table ${answers} set (fillfactor = ${copy.fillFactorOfFill(bodyBytes)})`)
  let next = 0
  let filled = 0
  let toldAt = begin
  const fillChunks = async (client: pg.Client) => {
    while (next < rows) {
      const from = next
      next = Math.min(rows, next + chunkRows)
      const to = next
      await client.query(copy.fill, [from, to - 1, headersText, randomBytes(bodyBytes), randomBytes(fingerprintBytes)])
      filled += to - from
      if (performance.now() - toldAt < 20_000) continue
      toldAt = performance.now()
      console.error(`  ${name}: ${filled} of ${rows} rows`)
    }
  }
  await Promise.all(clients.map(fillChunks))
  await first.query(`alter table ${answers} set (fillfactor = ${layout.fillFactor})`)
  console.error(`  ${name}: ${rows} rows in ${((performance.now() - begin) / 1_000).toFixed(1)} s`)
}
