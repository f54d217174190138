// A process that stages a portion of jobs whenever the test says so: in each of its lanes one commit after the other, and every second job
// of a commit in the lane's own group.
import pg from 'pg'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { childSettings, tellParent, wordFromParent } from '../support/in-child.js'

const { url, writer, lanes, commits, jobsEach } = childSettings<{
  url: string
  writer: number
  lanes: number
  commits: number
  jobsEach: number
}>()
const pool = new pg.Pool({ connectionString: url, max: 4 })
const once = createOnce({ store: postgresStore(fromPg(pool)) })
const stage = once.operation('stage', {}, async (run, input) => {
  const { lane, commit } = input as { lane: number; commit: number }
  return run.finish(async (tx) => {
    for (let each = 0; each < jobsEach; each += 1) {
      const number = commit * jobsEach + each
      const group = each % 2 === 0 ? `${writer}-${lane}` : undefined
      await run.stage(tx, 'job', { label: `${writer}-${lane}-${number}`, number }, group === undefined ? {} : { group })
    }
    return reply(201)
  })
})
for (let portion = 0; ; portion += 1) {
  await wordFromParent()
  await Promise.all(
    Array.from({ length: lanes }, async (_, lane) => {
      for (let commit = portion * commits; commit < (portion + 1) * commits; commit += 1) {
        await stage.run({ tenant: 'campaign', key: `${writer}-${lane}-${commit}`, input: { lane, commit } })
      }
    }),
  )
  tellParent('staged')
}
