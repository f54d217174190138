// Refund, note and export: each click is a new request, with a key that the client makes.
import { send } from './client.js'
import { row } from './row.js'
import { look, seen } from './watch.js'

const json = (method, body) => ({ method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
const orderOnPage = () => seen.orders?.find(({ charge_id }) => charge_id !== null) ?? seen.orders?.[0]

const sayings = {
  not_charged: 'refused: the order is not charged',
  already_refunded: 'refused: it was refunded before',
  order_unknown: 'there is no such order',
}

export async function refund(output) {
  const order = orderOnPage()
  if (!order) return say(output, 'send an order first')
  const response = await send(`/orders/${order.id}/refund`, { method: 'POST' })
  const { refund, error } = await response.json()
  say(output, `${response.status}: ${refund ? `given back as ${refund}` : (sayings[error] ?? 'no answer from the provider')}`)
  await look()
}

export async function saveNote(output, note) {
  const order = orderOnPage()
  if (!order) return say(output, 'send an order first')
  const response = await send(`/orders/${order.id}`, json('PATCH', { note }))
  say(output, `${response.status}: ${response.ok ? 'saved' : 'not saved'}`)
  await look()
}

export async function exportOrders(output) {
  const accepted = await send('/exports', json('POST', {}))
  const place = accepted.headers.get('location')
  say(output, `${accepted.status}: ${place ? 'accepted' : 'not accepted'}`)
  if (!place) return
  for (;;) {
    const response = await fetch(place)
    const { state, orders, file } = await response.json()
    if (file) return say(output, `${response.status}: `, row('a', { href: file }, `${orders} orders, CSV`))
    say(output, `${response.status}: ${state ?? 'no answer, asking again'}`)
    const seconds = Number(response.headers.get('retry-after') ?? 1)
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  }
}

function say(output, ...content) {
  output.replaceChildren(...content)
}
