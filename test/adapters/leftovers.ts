// Serves replays to itself, and tells how many bytes of each stay in the old part of the heap, where only a full collection finds them.
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { idempotency } from '../../src/adapters/node.js'
import { createOnce } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as (options?: { type: 'minor' }) => void
const once = createOnce({ store: memoryStore() })
const protect = idempotency(once, { tenant: 'single', afterFailure: 'rerun' })
const server = createServer(protect((_, response) => void response.writeHead(201, { 'Content-Type': 'application/json' }).end('{"id":1}')))
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setNoDelay()
const body = '{"item":"tea"}'
const head = `POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nIdempotency-Key: "k"\r\n\r\n`

const ask = () =>
  new Promise<string>((resolve) => {
    socket.once('data', (bytes) => resolve(bytes.toString()))
    socket.write(head + body)
  })
const oldBytes = () => getHeapSpaceStatistics().find(({ space_name }) => space_name === 'old_space')?.space_used_size ?? Number.NaN

async function replay(times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    const answer = await ask()
    if (!answer.startsWith('HTTP/1.1 201')) throw new Error(answer)
    if (time % 20 === 0) gc({ type: 'minor' })
  }
}

await replay(2_000)
gc()
await replay(200)
const before = oldBytes()
await replay(2_000)
process.send?.({ bytesOfEach: (oldBytes() - before) / 2_000 })
