// A process that delivers jobs to a stream of NATS, and is killed when the stream has acknowledged so many of them.
import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import pg from 'pg'
import { createOnce } from '../../src/index.js'
import { type JetStreamPublisher, natsSink } from '../../src/outbox/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { relay } from '../../src/workers/index.js'
import { childSettings } from '../support/in-child.js'

const { url, port, subject, leaseMs, killAt } = childSettings<{
  url: string
  port: number
  subject: string
  leaseMs: number
  killAt: number
}>()
const once = createOnce({ store: postgresStore(fromPg(new pg.Pool({ connectionString: url }))) })
const client = jetstream(await connect({ port }))
let acknowledged = 0
const publisher: JetStreamPublisher = {
  async publish(...message) {
    const answer = await client.publish(...message)
    acknowledged += 1
    if (acknowledged === killAt) process.kill(process.pid, 'SIGKILL')
    return answer
  },
}
relay(once, { sink: natsSink(publisher, { subject }), lease: leaseMs, batch: 20 }).start()
