// The pages about problems are held to the sources: there is one for each, and its examples are what a client really gets.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { routeAnswers, statusAnswers } from '../../src/http/openapi/route-answers.js'
import { resolveHttpOptions } from '../../src/http/options.js'
import { type ProblemCode, problems } from '../../src/http/problems.js'
import { webhookOf } from '../../src/http/webhook.js'
import type { Answer } from '../../src/index.js'

const folder = fileURLToPath(new URL('../../docs/problems/', import.meta.url))
const read = (name: string) => readFileSync(`${folder}${name}.md`, 'utf8')
const codes = Object.keys(problems) as ProblemCode[]

/** What a receiver of webhooks answers to what nobody signed. */
async function unsignedAnswer(profile: 'ietf' | 'stripe'): Promise<Answer> {
  const nobody = { name: 'nobody', handle: () => Promise.reject(new Error('it must not be handled')) }
  const request = {
    method: 'POST',
    path: '/',
    query: '',
    headerLines: () => [],
    body: async () => ({ bytes: new Uint8Array() }),
    native: {},
  }
  return webhookOf(nobody, { profile, verify: () => undefined }).answer(request)
}
const unsigned = { ietf: await unsignedAnswer('ietf'), stripe: await unsignedAnswer('stripe') }

/** The answer that the layer gives, on a route that can come to it. */
function answerOf(profile: 'ietf' | 'stripe', code: ProblemCode): Answer {
  if (code === 'signature_invalid') return unsigned[profile]
  const settings = resolveHttpOptions<never>({ tenant: 'single', required: true, profile }, () => true)
  const all = [...routeAnswers(settings, {}), ...routeAnswers(settings, { afterFailure: 'store' }), ...statusAnswers(settings)]
  const found = all.find((one) => one.code === code)
  if (!found) throw new Error(`no route answers ${code}`)
  return found.answer
}

/** The names of headers are written in any case; the id of one request is nobody else's. */
function told({ status, headers, body }: Answer) {
  const pairs = headers.map(([name, value]) => [name.toLowerCase(), value]).filter(([name]) => name !== 'request-id')
  return { status, headers: pairs, json: JSON.parse(Buffer.from(body).toString()) as unknown }
}

/** The answers that a page shows. */
function examples(page: string) {
  return [...page.matchAll(/^In the profile `(\w+)`:\n\n```http\nHTTP\/1\.1 (\d{3}) .*\n([\s\S]*?)\n\n([\s\S]*?)\n```$/gm)].map(
    ([, profile, status, headers = '', json = '']) => ({
      profile,
      status: Number(status),
      headers: headers.split('\n').map((line) => line.split(/: (.*)/, 2)),
      json: JSON.parse(json) as unknown,
    }),
  )
}

test('there is a page for each code, and none for a code that is no more', () => {
  expect(readdirSync(folder).sort()).toEqual(['README.md', ...codes.map((code) => `${code}.md`)].sort())
})

test('the index lists them all, with their statuses and titles', () => {
  const rows = [...read('README').matchAll(/^\| \[`(\w+)`\]\((\w+)\.md\) \| (\d+) \| (\d+) \| (.*) \|$/gm)].map((row) => row.slice(1))
  const statusOf = (profile: 'ietf' | 'stripe', code: ProblemCode) => String(answerOf(profile, code).status)
  expect(rows).toEqual(codes.map((code) => [code, code, statusOf('ietf', code), statusOf('stripe', code), problems[code].title]))
})

describe.each(codes)('%s', (code) => {
  test('the page says what happened, what it looks like, and what to do about it', () => {
    const page = read(code)
    expect(page.startsWith(`# \`${code}\`\n\n${problems[code].title}.\n`)).toBe(true)
    const sections = page.split(/^## /m).slice(1)
    expect(sections.map((section) => section.split('\n')[0])).toEqual([
      'What happened',
      'What it looks like',
      'What the client should do',
      'What the operator should look at',
    ])
    for (const section of sections) expect(section.split('\n').slice(1).join('').length).toBeGreaterThan(40)
  })

  test('its examples are what is answered', () => {
    expect(examples(read(code))).toEqual([
      { profile: 'ietf', ...told(answerOf('ietf', code)) },
      { profile: 'stripe', ...told(answerOf('stripe', code)) },
    ])
  })

  test('its answers lead here', () => {
    for (const profile of ['ietf', 'stripe'] as const) {
      const { headers } = answerOf(profile, code)
      expect(headers.find(([name]) => name === 'link')?.[1]).toContain(`/docs/problems/${code}.md>; rel="describedby"`)
    }
  })
})
