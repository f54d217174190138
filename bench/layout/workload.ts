import type pg from 'pg'
import { arrayLiterals, type Request } from './fields.js'
import type { Layout, LayoutCopy } from './layouts.js'
import { newRequests } from './requests.js'

export interface Subject {
  layout: Layout
  copy: LayoutCopy
  /** Names the copy in prepared statements. */
  name: string
  bodyBytes: number
}

export interface Concurrency {
  /** Connections, each with one statement under way. */
  lanes: number
  /** Rows per statement. */
  batch: number
}

/** Claims new keys and finishes them until the time is over; returns how many keys went through, and in which time. */
export async function claimAndFinish(lanes: readonly pg.Client[], subject: Subject, batch: number, seconds: number) {
  const begin = performance.now()
  const end = begin + seconds * 1_000
  const counts = await Promise.all(
    lanes.map(async (lane) => {
      let keys = 0
      while (performance.now() < end) {
        const requests = newRequests(batch, subject.layout.lookup, subject.bodyBytes)
        await claim(lane, subject, requests)
        await finish(lane, subject, requests)
        keys += batch
      }
      return keys
    }),
  )
  return { keys: counts.reduce((sum, keys) => sum + keys, 0), seconds: (performance.now() - begin) / 1_000 }
}

/** Throws unless every request got a new row; notes what its finish must carry. */
export async function claim(lane: pg.Client, subject: Subject, requests: Request[]) {
  const rows = await claimRows(lane, subject, requests)
  const made = new Map(rows.map((row) => [row.incarnation, row]))
  for (const request of requests) {
    const row = made.get(request.incarnation)
    if (!row?.made) throw new Error(`${subject.name}: a claim of a new key inserted nothing`)
    request.fence = String(row.fence)
    if (row.serial) request.serial = row.serial
  }
}

export async function claimRows(lane: pg.Client, { name, layout, copy }: Subject, requests: Request[]) {
  const values = arrayLiterals(layout.claimFields, requests)
  const { rows } = await lane.query({ name: `claim ${name}`, text: copy.claim, values, rowMode: 'array' })
  return rows.map(([made, incarnation, fence, serial, state]) => ({ made, incarnation, fence, serial, state }))
}

/** Throws unless every request was finished. */
export async function finish(lane: pg.Client, subject: Subject, requests: Request[]) {
  const finished = await finishCount(lane, subject, requests)
  if (finished !== requests.length) throw new Error(`${subject.name}: ${finished} of ${requests.length} finishes matched`)
}

export async function finishCount(lane: pg.Client, { name, layout, copy }: Subject, requests: Request[]) {
  const values = [...arrayLiterals(layout.finishFields, requests), 'processing']
  const { rows } = await lane.query({ name: `finish ${name}`, text: copy.finish, values, rowMode: 'array' })
  return rows.length
}
