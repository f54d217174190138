// A process that pays once, or goes on where an earlier one was killed. Its requests are kept in files.
import { idempotentFetch } from '../../src/client/index.js'
import { fileStorage } from '../../src/client/node.js'
import { childSettings, tellParent } from '../support/in-child.js'

export interface PayingSettings {
  url: string
  folder: string
  /** Without an amount it only resumes. */
  amount?: number
}

const { url, folder, amount } = childSettings<PayingSettings>()
const send = idempotentFetch({
  storage: fileStorage(folder),
  owner: 'single',
  prepare: ({ headers }) => headers.set('authorization', 'Bearer fresh'),
})

if (amount === undefined) {
  const resumed = await send.resume()
  tellParent(
    await Promise.all(
      resumed.map(async (one) => ({
        kind: one.kind,
        key: one.request.key,
        ...(one.kind === 'answered' && { replayed: one.response.replayed, answer: await one.response.json() }),
      })),
    ),
  )
} else {
  await send(url, { method: 'POST', headers: { authorization: 'Bearer secret' }, body: JSON.stringify({ amount }) })
}
process.disconnect()
