// A payment provider in a process of its own. It counts charges, honours keys if asked to, can be looked up, and can be told to be slow.
import { createServer } from 'node:http'
import { childSettings, tellParent } from '../support/in-child.js'

const { honoursKeys } = childSettings<{ honoursKeys: boolean }>()
const charges: { id: string; key: string; order: string }[] = []

const server = createServer(async (request, response) => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const url = new URL(request.url ?? '/', 'http://localhost')
  const answer = (value: unknown) => response.setHeader('content-type', 'application/json').end(JSON.stringify(value))
  if (request.method === 'GET') {
    const key = url.searchParams.get('key')
    const order = url.searchParams.get('order')
    return answer(charges.filter((charge) => (key ? charge.key === key : true) && (order ? charge.order === order : true)))
  }
  const { order } = JSON.parse(Buffer.concat(chunks).toString()) as { order: string }
  const key = String(request.headers['idempotency-key'])
  const known = honoursKeys ? charges.find((charge) => charge.key === key) : undefined
  const charge = known ?? { id: `ch_${charges.length + 1}`, key, order }
  if (!known) charges.push(charge)
  answer(charge)
})
server.listen(0, '127.0.0.1', () => tellParent(`http://127.0.0.1:${(server.address() as { port: number }).port}`))
