import { expect, onTestFinished, test, vi } from 'vitest'
import { reply } from '../core/answer.js'
import { createOnce, type OnceOptions } from '../create-once.js'
import { memoryStore } from '../stores/memory/index.js'
import type { OnceEvent } from './events.js'

const silent = { info() {}, warn() {}, error() {} }

function setup(options: Partial<OnceOptions> = {}) {
  const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  onTestFinished(() => warnings.mockRestore())
  const events: OnceEvent[] = []
  const once = createOnce({ store: memoryStore(), maxAnswerBytes: 4, onEvent: (event) => events.push(event), ...options })
  const answer = async (scope: string, bytes: number) => {
    const request = { tenant: 't', scope, key: crypto.randomUUID(), fingerprint: false, afterFailure: 'rerun' } as const
    await once.execute(request, () => reply(200, new Uint8Array(bytes)))
  }
  return { answer, warnings, omitted: () => events.filter(({ type }) => type === 'answer-omitted') }
}

test('an answer over the cap is reported with its size, one that fits is not', async () => {
  const { answer, omitted } = setup()
  await answer('exports', 4)
  expect(omitted()).toEqual([])
  await answer('exports', 5)
  expect(omitted()).toMatchObject([{ scope: 'exports', bytes: 5, capBytes: 4 }])
})

test('without a logger the first one of each scope is a warning of the process', async () => {
  const { answer, omitted, warnings } = setup()
  for (const scope of ['exports', 'exports', 'reports']) await answer(scope, 5)
  expect(omitted()).toHaveLength(3)
  const said = warnings.mock.calls.map(([message, options]) => [message, (options as { code: string }).code])
  expect(said).toEqual([
    [expect.stringMatching(/scope "exports" has 5 bytes; maxAnswerBytes is 4/), 'ONCEKEY_ANSWER'],
    [expect.stringMatching(/scope "reports"/), 'ONCEKEY_ANSWER'],
  ])
})

test('with a logger it is a line there, and no warning', async () => {
  const { answer, warnings } = setup({ logger: { ...silent, warn: (...line) => lines.push(line) } })
  const lines: unknown[] = []
  await answer('exports', 5)
  expect(lines).toEqual([[expect.objectContaining({ type: 'answer-omitted' }), expect.stringContaining('maxAnswerBytes')]])
  expect(warnings).not.toHaveBeenCalled()
})

test('scopes without end warn a limited number of times', async () => {
  const { answer, warnings } = setup()
  for (let scope = 0; scope < 120; scope += 1) await answer(`/orders/${scope}`, 5)
  expect(warnings).toHaveBeenCalledTimes(100)
})

test('an answer whose redact failed is not called too large', async () => {
  const { answer, omitted } = setup({ redact: () => null as never })
  await answer('exports', 4)
  expect(omitted()).toEqual([])
})
