import { expect, test } from 'vitest'
import { resolveHttpOptions } from './options.js'
import { replyTo } from './replies.js'

test.each([
  [0, '1'],
  [1, '1'],
  [1_000, '1'],
  [1_001, '2'],
  [14_999, '15'],
])('%i ms of a lease are a Retry-After of %s s: who comes back then does not come too early', (retryAfterMs, seconds) => {
  for (const whenInProgress of ['conflict', 'accepted'] as const) {
    const settings = resolveHttpOptions({ tenant: 'single', whenInProgress }, () => false)
    const { headers } = replyTo(settings, { kind: 'in-progress', retryAfterMs })
    expect(headers.filter(([name]) => name === 'retry-after')).toEqual([['retry-after', seconds]])
  }
})
