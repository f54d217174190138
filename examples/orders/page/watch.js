// Asks the supervisor, which lives on when a service dies, and shows what it says.
import { currentKey, customer } from './purchase.js'
import { row } from './row.js'

const euros = new Intl.NumberFormat('en', { style: 'currency', currency: 'EUR' })
const points = ['claimed', 'order_created', 'charge_created', 'complete']

/** What was seen last. Refunds and notes are about its order. */
export let seen = {}

let loops = 0
let looks = 0
let shown = 0

/** Until it is called again. `isBusy` says whether something is under way: then it looks often. */
export async function watch(isBusy) {
  loops += 1
  for (const mine = loops; mine === loops; ) {
    await look()
    await new Promise((resolve) => setTimeout(resolve, isBusy() ? 250 : 1_500))
  }
}

export async function look() {
  looks += 1
  const mine = looks
  const query = new URLSearchParams({ key: currentKey(), customer: customer() })
  const now = await fetch(`/watch?${query}`)
    .then((response) => (response.ok ? response.json() : undefined))
    .catch(() => undefined)
  // A later look was faster.
  if (mine < shown) return
  shown = mine
  if (!now) return showProcesses({ service: { state: 'starting' }, naive: { state: 'starting' } })
  seen = now
  showProcesses(now.processes)
  if (now.charges) {
    showVerdict('with', now.charges.with)
    showVerdict('without', now.charges.without)
  }
  if (now.orders) showOrders('with', now.orders)
  if (now.naive) showOrders('without', now.naive.orders)
  showTrack(now)
}

function showProcesses({ service, naive }) {
  for (const [column, { state, pid, deaths }] of [
    ['with', service],
    ['without', naive],
  ]) {
    const element = document.querySelector(`#${column} .process`)
    const died = deaths > 0 ? `, died ${times(deaths)}` : ''
    element.dataset.state = state === 'up' ? 'up' : 'down'
    element.dataset.pid = pid
    element.textContent = state === 'up' ? `process ${pid}${died}` : state === 'starting' ? 'starting' : 'down, restarting'
  }
}

const times = (count) => (count === 1 ? 'once' : count === 2 ? 'twice' : `${count} times`)

/** What counts is what the provider has in its books. */
function showVerdict(column, { charged, refunded, cents }) {
  const verdict = document.querySelector(`#${column} .verdict`)
  const text = charged === 0 ? 'Not charged' : `Charged ${times(charged)}`
  if (verdict.textContent !== text) verdict.textContent = text
  verdict.dataset.is = charged === 0 ? 'none' : charged === 1 ? 'good' : 'bad'
  verdict.dataset.charged = charged
  const books = `${euros.format(cents / 100)} by the provider’s books${refunded > 0 ? ', and given back' : ''}`
  document.querySelector(`#${column} .books`).textContent = charged === 0 ? '' : books
}

function showOrders(column, orders) {
  const most = 3
  const rows = orders.slice(0, most).map(({ id, charge_id, refund_id, receipt_sent, note }) => {
    const facts = [charge_id ?? 'no charge known', refund_id, receipt_sent && 'receipt sent', note && `“${note}”`]
    const is = charge_id === null ? 'doubt' : 'known'
    return row('li', {}, [row('code', {}, id.slice(0, 8)), row('span', { 'data-is': is }, facts.filter(Boolean).join(', '))])
  })
  if (orders.length > most) rows.push(row('li', { class: 'empty' }, `and ${orders.length - most} more orders`))
  if (orders.length === 0) rows.push(row('li', { class: 'empty' }, 'no order of this customer'))
  document.querySelector(`#${column} .orders`).replaceChildren(...rows)
}

function showTrack({ key, processes }) {
  const point = document.querySelector('#with .point')
  if (processes.service.state !== 'up') {
    point.textContent = 'The server is down and restarting. The key waits in the database.'
    return
  }
  if (!key) return
  const reached = key.state === undefined ? -1 : key.state === 'complete' ? 3 : Math.max(0, points.indexOf(key.recoveryPoint))
  const isRunning = key.state === 'processing'
  for (const [index, step] of document.querySelectorAll('#with .track li').entries()) {
    step.dataset.is = index <= reached ? 'done' : isRunning && index === reached + 1 ? 'next' : ''
    if (isRunning && index === reached + 1) step.setAttribute('aria-current', 'step')
    else step.removeAttribute('aria-current')
  }
  point.textContent = pointText(key)
}

function pointText({ state, recoveryPoint, fence, leaseLeftMs, answerStatus, trail }) {
  if (state === undefined) return ''
  const attempts = trail.filter(({ what }) => what === 'claimed' || what === 'taken-over').length
  const so = `Attempt ${attempts}, fence ${fence}: `
  if (state === 'complete') return `${so}complete with ${answerStatus}, and so it stays for 72 hours.`
  if (state === 'processing') return `${so}at ${recoveryPoint ?? 'claimed'}, the lease has ${(leaseLeftMs / 1000).toFixed(1)} s left.`
  return `${so}waits for the next attempt (${state}).`
}
