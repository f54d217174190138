// A page that pays, in a real browser, as the user of its cookie. `?indexedDB` is where its requests are kept, else it is localStorage.
import { indexedDbStorage, webStorage } from '../../src/client/browser.js'
import { type IdempotentResponse, idempotentFetch } from '../../src/client/index.js'

const { location, document } = globalThis as unknown as { location: { search: string }; document: { cookie: string } }
const unreadable: string[] = []
const send = idempotentFetch({
  storage: location.search === '?indexedDB' ? indexedDbStorage() : webStorage(),
  owner: () => /user=(\w+)/.exec(document.cookie)?.[1],
  onUnreadable: ({ id, error }) => unreadable.push(`${id}: ${(error as Error).name}`),
})

async function told(response: IdempotentResponse) {
  const { status, key, replayed, attempts } = response
  return { status, key, replayed, attempts, answer: await response.text() }
}

const body = (size = 0) => {
  const form = new FormData()
  if (size > 0) form.set('noise', new Blob(Array.from({ length: size / 1_000 }, () => crypto.getRandomValues(new Uint8Array(1_000)))))
  form.set('amount', '100')
  form.set('receipt', new Blob([Uint8Array.of(0, 255, 10, 13)]), 'receipt.bin')
  return form
}

Object.assign(globalThis, {
  shop: {
    pay: async (url: string) => told(await send(url, { method: 'POST', body: body() })),
    failure: (url: string, size?: number) => send(url, { method: 'POST', body: body(size) }).catch(({ code }: { code: string }) => code),
    keys: async () => (await send.pending()).map(({ key }) => key),
    bodies: async () => (await send.pending()).map(({ body }) => body?.constructor.name),
    unreadable,
    resume: async () => Promise.all((await send.resume()).map(async (one) => (one.kind === 'answered' ? told(one.response) : one.kind))),
  },
})
