// A payment provider, in a process of its own, that honours idempotency keys: what comes again with a key gets the first answer again. It
// can be told to be slow, to decline, and to lose its answer.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { listen } from './child-process.js'
import { addressOf, jsonBody, sendJson } from './http.js'
import { type Asked, type Entry, openLedger } from './provider-ledger.js'

const moods = ['normal', 'slow', 'declines', 'loses'] as const
let mood: (typeof moods)[number] = 'normal'

const ledger = openLedger(process.env.LEDGER ?? '.data/orders/provider.jsonl')
const nameOf = ({ account, key }: Asked) => `${account} ${key}`
/** A promise, because the same key may come again while the first one is under way. */
const known = new Map<string, Promise<Entry>>(ledger.entries.map((entry) => [nameOf(entry), Promise.resolve(entry)]))

listen(async (request, response) => {
  const { pathname, searchParams } = addressOf(request)
  switch (`${request.method} ${pathname}`) {
    case 'POST /charges':
      return answer(request, response, 'charge')
    case 'POST /refunds':
      return answer(request, response, 'refund')
    case 'GET /charges': {
      const of = (account: string) => ledger.chargesOf(account, searchParams.get('customer'))
      return sendJson(response, 200, { mood, with: of('with-oncekey'), without: of('without-oncekey') })
    }
    case 'PUT /mood': {
      const wanted = ((await jsonBody(request)) as { mood?: unknown } | undefined)?.mood
      const found = moods.find((one) => one === wanted)
      if (found === undefined) return sendJson(response, 400, { error: `a mood is one of ${moods.join(', ')}` })
      mood = found
      return sendJson(response, 200, { mood })
    }
    default:
      return sendJson(response, 404, { error: 'not_found' })
  }
})

async function answer(request: IncomingMessage, response: ServerResponse, kind: Asked['kind']): Promise<void> {
  const account = request.headers.authorization?.replace('Bearer ', '')
  const key = request.headers['idempotency-key']
  const body = await jsonBody(request)
  if (account === undefined || typeof key !== 'string' || typeof body !== 'object') {
    return sendJson(response, 400, { error: 'account_key_or_body_missing' })
  }
  const asked: Asked = { ...body, account, key, kind }
  const entry = known.get(nameOf(asked)) ?? carryOut(asked)
  known.set(nameOf(asked), entry)
  const before = await entry
  if (!isSame(before, asked)) return sendJson(response, 422, { error: 'key_used_for_another_request' })
  if (isLost(asked)) request.socket.destroy()
  else sendJson(response, before.status, before.answer)
}

async function carryOut(asked: Asked): Promise<Entry> {
  // About what others take. `slow` is slower than a person's patience.
  await new Promise((resolve) => setTimeout(resolve, mood === 'slow' ? 2_500 : 150))
  if (asked.kind === 'refund') {
    if (!ledger.hasCharge(asked.account, asked.charge)) return ledger.add(asked, { status: 404, error: 'charge_unknown' })
    if (ledger.hasRefund(asked.account, asked.charge)) return ledger.add(asked, { status: 409, error: 'already_refunded' })
  } else if (mood === 'declines') {
    return ledger.add(asked, { status: 402, error: 'card_declined' })
  }
  return ledger.add(asked, { status: 201 })
}

const isSame = (one: Asked, other: Asked) =>
  one.kind === other.kind && one.customer === other.customer && one.cents === other.cents && one.charge === other.charge

/** The first answer for each customer of each account is lost; whoever asks again hears one, whatever key it comes with. */
const lost = new Set<string>()
function isLost({ account, kind, customer, charge }: Asked): boolean {
  const what = `${account} ${kind} ${customer ?? charge}`
  if (mood !== 'loses' || lost.has(what)) return false
  lost.add(what)
  return true
}
