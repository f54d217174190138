import { randomBytes } from 'node:crypto'
import { createFingerprinter } from '../../src/core/fingerprint/fingerprint.js'
import { shown, table } from '../harness/report.js'
import type { Rounds } from '../harness/rounds.js'
import { type Spread, spread } from '../layout/summary.js'

const sizes = [100, 1_000, 10_000, 100_000]
/** What a service does with JSON in any case. */
export const ofJson = 'JSON.parse and JSON.stringify'

/** CPU µs of one fingerprint, by media type and by size of the body in bytes. */
export type Fingerprints = Readonly<Record<string, Readonly<Record<number, Spread>>>>

/** What a fingerprint costs the process that takes it. There is nothing to wait for, so its processor time is all of it. */
export function measureFingerprints({ rounds, seconds }: Rounds): Fingerprints {
  const fingerprint = createFingerprinter()
  const of = (mediaType: string, body: Buffer) => {
    const request = { method: 'POST', path: '/orders', mediaType, body }
    return () => fingerprint(request)
  }
  const subjects: Readonly<Record<string, (size: number) => () => unknown>> = {
    'application/json': (size) => of('application/json', orderOf(size)),
    [ofJson]: (size) => {
      const body = orderOf(size)
      return () => JSON.stringify(JSON.parse(body.toString()))
    },
    'application/octet-stream': (size) => of('application/octet-stream', randomBytes(size)),
  }
  const millisecondsPerTurn = (1_000 * seconds) / sizes.length
  const measured: Record<string, Record<number, Spread>> = {}
  for (const size of sizes) {
    const turns = Object.entries(subjects).map(([name, subjectOf]) => ({ name, call: subjectOf(size), micros: [] as number[] }))
    // The first round is for warming up.
    for (let round = 0; round <= rounds; round += 1) {
      for (const { call, micros } of turns) micros.push(microsPerCall(call, millisecondsPerTurn))
    }
    for (const { name, micros } of turns) measured[name] = { ...measured[name], [size]: spread(micros.slice(1)) }
  }
  return measured
}

function microsPerCall(call: () => unknown, milliseconds: number): number {
  const until = performance.now() + milliseconds
  const before = process.cpuUsage()
  let calls = 0
  do {
    for (let index = 0; index < 20; index += 1) call()
    calls += 20
  } while (performance.now() < until)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / calls
}

/** An order with as many lines as it takes. */
function orderOf(bytes: number): Buffer {
  const lines: object[] = []
  const order = { customer: 'cus_1f8a', currency: 'eur', reference: 'tea for two', lines }
  while (JSON.stringify(order).length < bytes) lines.push({ sku: `tea-${lines.length}`, quantity: 2, price: 4.25, gift: false, note: null })
  return Buffer.from(JSON.stringify(order))
}

export function fingerprintTable(fingerprints: Fingerprints): string {
  const rows = Object.entries(fingerprints).map(([mediaType, bySize]) => [
    mediaType,
    ...sizes.map((size) => shown(bySize[size] ?? null, 1)),
  ])
  return `### Fingerprints\n\n${table(['CPU µs of one, by size of the body', ...sizes.map((size) => `${size} bytes`)], rows)}\n`
}
