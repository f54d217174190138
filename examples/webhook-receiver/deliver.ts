// STAND-IN for the sender: signs an event and delivers it. Say `npx tsx deliver.ts msg_1` twice: the second time nothing is added.
import { Webhook } from 'standardwebhooks'

const [id = 'msg_1', url = 'http://localhost:3000/webhooks'] = process.argv.slice(2)
const body = JSON.stringify({ type: 'invoice.paid', account: 'acme', cents: 500 })
const now = new Date()
const response = await fetch(url, {
  method: 'POST',
  headers: {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new Webhook(process.env.WEBHOOK_SECRET ?? '').sign(id, now, body),
  },
  body,
})
console.log(response.status, response.headers.get('idempotent-replayed') ? 'again' : 'taken in')
