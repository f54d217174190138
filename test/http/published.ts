import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect } from 'vitest'
import type { IdempotencyDescription } from '../../src/http/openapi.js'
import type { Answer } from '../../src/index.js'

const ajv = new Ajv2020({ strict: true, formats: { uri: URL.canParse, 'date-time': (text) => new Date(text).toISOString() === text } })

const json = ({ body }: Answer) => JSON.parse(Buffer.from(body).toString()) as { code?: string; state?: string; error?: { code: string } }
const headerOf = ({ headers }: Answer, wanted: string) => headers.find(([name]) => name.toLowerCase() === wanted)?.[1]

const compiled = new Map<string, ReturnType<typeof ajv.compile>>()

/** Routes have most of their schemas in common, and compiling one takes longer than asking all of them. */
function validatorOf(schema: object | false): ReturnType<typeof ajv.compile> {
  const text = JSON.stringify(schema)
  const validator = compiled.get(text) ?? ajv.compile(schema)
  compiled.set(text, validator)
  return validator
}

/** The code of an answer, in our words. A 202 is no problem, and has a state or nothing. */
function codeOf(answer: Answer): string {
  const code = json(answer).code ?? json(answer).error?.code ?? json(answer).state ?? 'key_in_use'
  return code === 'idempotency_key_in_use' ? 'key_in_use' : code
}

/** What was said is all that is published, and nothing else; and it is as it is published. */
export function expectPublished(responses: IdempotencyDescription['responses'], said: readonly Answer[]): void {
  const published = Object.entries(responses).flatMap(([status, { content = {} }]) =>
    Object.values(content).flatMap(({ examples }) => Object.keys(examples).map((code) => `${status} ${code}`)),
  )
  expect([...new Set(said.map((answer) => `${answer.status} ${codeOf(answer)}`))].sort()).toEqual(published.sort())
  for (const answer of said) {
    const response = responses[answer.status]
    const media = response?.content?.[headerOf(answer, 'content-type') ?? '']
    const fits = validatorOf(media?.schema ?? false)
    expect([fits(json(answer)), fits.errors]).toEqual([true, null])
    const headers = Object.entries(response?.headers ?? {})
    for (const [name, { required }] of headers) if (required) expect(headerOf(answer, name.toLowerCase())).toBeDefined()
    const known = new Set(['content-type', ...headers.map(([name]) => name.toLowerCase())])
    expect(answer.headers.map(([name]) => name.toLowerCase()).filter((name) => !known.has(name))).toEqual([])
  }
}
