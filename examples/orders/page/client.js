// The client of both shops: the one that comes with oncekey. It sends the same key and the same bytes until there is an answer.
import { idempotentFetch } from '/client/index.js'
import { showAnswers } from './answers.js'

const paths = { with: '/orders', without: '/naive/orders' }

/** Each attempt is shown, not only the last one. */
async function shownFetch(url, init) {
  const column = new URL(url).pathname === paths.without ? 'without' : 'with'
  const key = new Headers(init.headers).get('idempotency-key')
  const response = await fetch(url, init)
  if (init.method === 'POST' && Object.values(paths).includes(new URL(url).pathname)) showAnswers(column, key, [answerOf(response)])
  return response
}

export const answerOf = ({ status, headers }) => ({
  status,
  replayed: headers.get('idempotent-replayed') === 'true',
  retryAfter: headers.get('retry-after'),
})

/** Patient enough for a server that has to start again. */
export const send = idempotentFetch({ fetch: shownFetch, maxAttempts: 300, firstDelay: 250, maxDelay: '1s' })

const json = (body) => ({ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })

/** The same request to both, at the same time. A client that gives up in the end has shown each of its attempts. */
export async function sendToBoth(key, order) {
  const request = json(order)
  request.headers['idempotency-key'] = key
  await Promise.allSettled(Object.values(paths).map((path) => send(path, request)))
}

export async function sendManyToBoth(key, order, times) {
  const response = await fetch('/burst', json({ key, order, times }))
  const answers = await response.json()
  showAnswers('with', key, answers.with)
  showAnswers('without', key, answers.without)
}

export const setMood = (mood) => fetch('/provider/mood', { ...json({ mood }), method: 'PUT' })
export const armCrash = () => fetch('/crash', { method: 'POST' })
export const disarmCrash = () => fetch('/crash', { method: 'DELETE' })
