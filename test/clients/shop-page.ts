// A page that pays, in a real browser. `?indexedDB` is where its requests are kept, else it is localStorage.
import { indexedDbStorage, webStorage } from '../../src/client/browser.js'
import { type IdempotentResponse, idempotentFetch } from '../../src/client/index.js'

const { location } = globalThis as unknown as { location: { search: string } }
const send = idempotentFetch({ storage: location.search === '?indexedDB' ? indexedDbStorage() : webStorage() })

async function told(response: IdempotentResponse) {
  const { status, key, replayed, attempts } = response
  return { status, key, replayed, attempts, answer: await response.text() }
}

const body = () => {
  const form = new FormData()
  form.set('amount', '100')
  form.set('receipt', new Blob([Uint8Array.of(0, 255, 10, 13)]), 'receipt.bin')
  return form
}

Object.assign(globalThis, {
  shop: {
    pay: async (url: string) => told(await send(url, { method: 'POST', body: body() })),
    failure: (url: string) => send(url, { method: 'POST', body: body() }).catch(({ code }: { code: string }) => code),
    keys: async () => (await send.pending()).map(({ key }) => key),
    resume: async () => Promise.all((await send.resume()).map(async (one) => (one.kind === 'answered' ? told(one.response) : one.kind))),
  },
})
