import assert from 'node:assert/strict'
import type pg from 'pg'
import { newRequests } from './requests.js'
import { claim, claimRows, finish, finishCount, type Subject } from './workload.js'

/** A layout that forgets its fence would win every race: checked before anything is measured. */
export async function checkLayout(lane: pg.Client, admin: pg.Client, subject: Subject) {
  const { layout, copy, name, bodyBytes } = subject
  const requests = newRequests(64, layout.lookup, bodyBytes)
  await claim(lane, subject, requests)

  const again = requests.map((request) => ({ ...request, incarnation: crypto.randomUUID() }))
  const seen = await claimRows(lane, subject, again)
  assert.deepEqual(new Set(seen.map((row) => row.incarnation)), new Set(requests.map((request) => request.incarnation)), name)
  assert.ok(
    seen.every((row) => !row.made && row.state === 'processing'),
    `${name}: a claimed key is seen as processing`,
  )

  const staleFence = requests.map((request) => ({ ...request, fence: '2' }))
  assert.equal(await finishCount(lane, subject, staleFence), 0, `${name}: another fence finishes nothing`)
  const otherLife = requests.map((request) => ({ ...request, incarnation: crypto.randomUUID() }))
  assert.equal(await finishCount(lane, subject, otherLife), 0, `${name}: another incarnation finishes nothing`)

  await finish(lane, subject, requests)
  assert.equal(await finishCount(lane, subject, requests), 0, `${name}: a finished key is not finished again`)
  const replay = await claimRows(lane, subject, again)
  assert.ok(
    replay.every((row) => !row.made && row.state === 'complete'),
    `${name}: a finished key is seen as complete`,
  )
  assert.equal((await admin.query(copy.countFinished)).rows[0].finished, requests.length, name)
}
