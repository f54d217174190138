import { type Connection, fromPg, postgresStore } from 'oncekey/postgres'
import type { BenchServer } from '../harness/server.js'
import { claimAndFinish } from './store.js'

type Value = Parameters<Connection<unknown>['query']>[1][number]

/** One of the store's own statements, as it sends it. */
export interface Captured {
  readonly text: string
  readonly parameters: readonly {
    readonly type: string
    /** Differs from key to key; else `value` is sent with every key. */
    readonly varies: boolean
    readonly value: Value
  }[]
}

/** The statements of a claim and of a finish of so many keys at once, taken from what the store sends, so that they cannot drift from it. */
export async function captureStatements(server: BenchServer, rows: number): Promise<Captured[]> {
  const sent: { text: string; values: readonly Value[] }[] = []
  const connection = fromPg(server.pool(4)) as Connection<unknown>
  const capturing: Connection<unknown> = {
    ...connection,
    query(text, values) {
      sent.push({ text, values })
      return connection.query(text, values)
    },
  }
  // One statement at a time, so that all of them are in it.
  const store = postgresStore(capturing, { batch: { maxInFlight: 1 } })
  await claimAndFinish(store)
  const captures: (typeof sent)[] = []
  for (let time = 0; time < 2; time += 1) {
    sent.length = 0
    await Promise.all(Array.from({ length: rows }, () => claimAndFinish(store)))
    captures.push([...sent])
  }
  const [first, second] = captures as [typeof sent, typeof sent]
  if (first.length !== 2 || second.length !== 2) throw new Error(`${rows} claims and finishes took ${first.length} statements, and not 2`)
  const captured: Captured[] = []
  for (const [index, { text, values }] of first.entries()) {
    const types = await parameterTypes(server, text)
    const others = second[index]?.values ?? []
    const parameters = values.map((value, place) => ({
      type: types[place] as string,
      varies: !isEqual(value, others[place] as Value),
      value,
    }))
    captured.push({ text, parameters })
  }
  return captured
}

async function parameterTypes({ admin }: BenchServer, text: string): Promise<string[]> {
  await admin.query(`prepare captured as ${text}`)
  const { rows } = await admin.query(`select parameter_types::text[] as types from pg_prepared_statements where name = 'captured'`)
  await admin.query('deallocate captured')
  return rows[0].types
}

function isEqual(one: Value, other: Value): boolean {
  if (one instanceof Uint8Array && other instanceof Uint8Array) return Buffer.compare(one, other) === 0
  return one === other
}
