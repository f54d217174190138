// The order that is on the page, and the key it is sent with.
const item = document.querySelector('#item')
const amount = document.querySelector('#amount')
const key = document.querySelector('#key')

/** Keys that were sent before. */
const sent = new Set()

export function currentKey() {
  return key.value.trim()
}

/** Each key has a customer of its own, so that the provider's books can be read by it. */
export function customer() {
  return `ada+${currentKey().replace(/^([\da-f]{8})(-[\da-f]{4}){3}-[\da-f]{12}$/, '$1')}@example.com`
}

export function order({ moreCents = 0 } = {}) {
  return { item: item.selectedOptions[0].text, cents: Math.round(amount.valueAsNumber * 100) + moreCents, customer: customer() }
}

/** Says so at the field if it cannot be sent. */
export const isComplete = () => key.reportValidity() && amount.reportValidity()

export const wasSent = () => sent.has(currentKey())
export const markSent = () => sent.add(currentKey())

export function newKey() {
  key.value = crypto.randomUUID()
  key.dispatchEvent(new Event('change'))
}

/** What another key hears is another story. */
export const onNewKey = (listener) => key.addEventListener('change', listener)

item.addEventListener('change', () => {
  amount.value = (Number(item.value) / 100).toFixed(2)
})
