// The buttons.
import { clearAnswers, startClock } from './answers.js'
import { armCrash, disarmCrash, sendManyToBoth, sendToBoth, setMood } from './client.js'
import { exportOrders, refund, saveNote } from './more.js'
import { currentKey, isComplete, markSent, newKey, onNewKey, order, wasSent } from './purchase.js'
import { look, seen, watch } from './watch.js'

const $ = (selector) => document.querySelector(selector)
let underWay = 0
/** What is sent meets the provider in the mood that the page shows. */
let moodSet = Promise.resolve()

/** What a button does, with the page awake while it does it. */
function press(selector, action) {
  $(selector).addEventListener('click', async () => {
    underWay += 1
    document.body.dataset.underWay = underWay
    void watch(() => underWay > 0)
    try {
      await action()
    } finally {
      await look()
      underWay -= 1
      document.body.dataset.underWay = underWay
    }
  })
}

function pressToSend(selector, action) {
  press(selector, async () => {
    await moodSet
    if (isComplete()) await action()
  })
}

function tell(text) {
  $('#story').textContent = text
}

function begin(text) {
  tell(text)
  startClock()
  markSent()
}

/** Who is told to die would die in the middle of whatever else is sent. */
function disableButtons(disabled) {
  for (const button of document.querySelectorAll('button')) button.disabled = disabled
}

press('#new', async () => {
  newKey()
  tell('A new key is a new order.')
})

pressToSend('#send', async () => {
  begin(wasSent() ? 'The same request again, with the same key.' : 'One request to each shop.')
  await sendToBoth(currentKey(), order())
})

pressToSend('#twice', async () => {
  begin('The client did not hear the first answer, and sends the same request again.')
  const [key, body] = [currentKey(), order()]
  await sendToBoth(key, body)
  await sendToBoth(key, body)
})

pressToSend('#fifty', async () => {
  begin('Fifty copies of one request arrive at the same moment.')
  await sendManyToBoth(currentKey(), order(), 50)
  tell('Fifty copies arrived at the same moment. On the left one ran. The others were told to come back, or got its answer.')
})

pressToSend('#changed', async () => {
  const [key, body, other] = [currentKey(), order(), order({ moreCents: 100 })]
  if (!wasSent()) {
    begin('First the order.')
    await sendToBoth(key, body)
    // There is another order on the page by now.
    if (key !== currentKey()) return
  }
  begin('The same key, and one euro more: another request that claims to be the same.')
  await sendToBoth(key, other)
})

pressToSend('#crash', async () => {
  // What is complete is replayed, and charges nothing any more: there is no middle to crash in.
  if (wasSent()) newKey()
  begin('Both servers are killed right after the provider has charged, before they can write it down. The client tries again.')
  disableButtons(true)
  try {
    await armCrash()
    await sendToBoth(currentKey(), order())
    await look()
    tell('Both died and came back. The left one went on from order_created, the right one began anew.')
  } finally {
    await disarmCrash().finally(() => disableButtons(false))
  }
})

press('#refund', () => refund($('#refund-answer')))
press('#save', () => saveNote($('#note-answer'), $('#note').value))
press('#export', () => exportOrders($('#export-answer')))

for (const radio of document.querySelectorAll('[name=mood]')) {
  radio.addEventListener('change', () => {
    moodSet = setMood(radio.value)
  })
}

onNewKey(() => {
  clearAnswers()
  for (const output of document.querySelectorAll('#refund-answer, #note-answer')) output.replaceChildren()
  void look()
})

newKey()
await look()
void watch(() => underWay > 0)
// The provider may be in a mood from before.
const { mood } = seen.charges ?? {}
if (mood) $(`[name=mood][value=${mood}]`).checked = true
