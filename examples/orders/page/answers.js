// The list of answers of each shop.
import { currentKey } from './purchase.js'
import { row } from './row.js'

const most = 7
let startedAt = performance.now()
let lists = { with: [], without: [] }

/** From here on times count. */
export function startClock() {
  startedAt = performance.now()
}

export function clearAnswers() {
  lists = { with: [], without: [] }
  for (const column of Object.keys(lists)) render(column)
}

/** The same answer again is one row that counts. What another key hears than the one on the page is not shown. */
export function showAnswers(column, key, answers) {
  if (key !== currentKey()) return
  const list = lists[column]
  const after = (performance.now() - startedAt) / 1000
  for (const answer of answers.toSorted((one, other) => one.status - other.status)) {
    const last = list.at(-1)
    if (last?.status === answer.status && last.replayed === answer.replayed) Object.assign(last, answer, { after, times: last.times + 1 })
    else list.push({ ...answer, after, times: 1 })
  }
  render(column)
}

function render(column) {
  const list = document.querySelector(`#${column} .answers`)
  const shown = lists[column].slice(-most)
  const earlier = lists[column].length - shown.length
  list.replaceChildren(
    ...(shown.length === 0 ? [row('li', { class: 'empty' }, 'none yet')] : []),
    ...(earlier > 0 ? [row('li', { class: 'empty' }, `${earlier} earlier`)] : []),
    ...shown.map(({ status, times, after, ...answer }) =>
      row('li', { 'data-status': status, 'data-replayed': answer.replayed, 'data-times': times }, [
        row('span', { class: 'status', 'data-is': colour(status) }, String(status)),
        row('span', { class: 'said' }, meaning({ status, ...answer })),
        ...(times > 1 ? [row('span', { class: 'times' }, `${times} times`)] : []),
        row('time', {}, `${after.toFixed(1)} s`),
      ]),
    ),
  )
}

const colour = (status) => (status < 300 ? 'good' : status === 409 ? 'wait' : status < 500 ? 'plain' : 'bad')

function meaning({ status, replayed, retryAfter }) {
  if (status === 201) return replayed ? 'the first answer again, replayed' : 'order created and charged'
  if (status === 402) return replayed ? 'card declined, replayed' : 'card declined'
  if (status === 409) return retryAfter ? `in progress, come back in ${retryAfter} s` : 'in progress, come back later'
  if (status === 422) return 'the key belongs to another body'
  if (status === 400) return 'not a valid order, or no key'
  if (status === 502) return 'no answer, the server is gone'
  return status >= 500 ? 'no answer from the provider' : ''
}
