// The pages on the client say what it does.
import { describe, expect, test } from 'vitest'
import { clientErrorCodes } from '../../src/client/client-error.js'
import { type Duration, durationMs } from '../../src/client/duration.js'
import { neverKept, settingsOf } from '../../src/client/options.js'
import { membersOf, rows, section } from './pages.js'

const guide = 'docs/guide/client.md'
const options = rows(section('docs/reference/options.md', 'idempotentFetch'))
const published = (name: string) => (options.get(name)?.[1] ?? '').replaceAll(/[`']/g, '')

describe('options.md', () => {
  test('lists exactly the options of idempotentFetch', () => {
    expect([...options.keys()]).toEqual(membersOf('IdempotentFetchOptions', 'src/client/options.ts'))
  })

  test('gives the defaults that are in force', () => {
    const { ms, maxAttempts, methods, quoted, retryOn } = settingsOf({})
    for (const [name, value] of Object.entries(ms)) expect([name, durationMs(published(name) as Duration, name)]).toEqual([name, value])
    expect([published('maxAttempts'), published('methods'), published('quoted')]).toEqual([
      `${maxAttempts}`,
      methods.join(', '),
      `${quoted}`,
    ])
    const left = Array.from({ length: 100 }, (_, index) => 500 + index).filter((status) => !retryOn(status))
    expect(published('retryOn')).toBe(`all but ${left.join(' and ')}`)
  })
})

describe('client.md', () => {
  test('lists exactly the codes of errors', () => {
    expect([...rows(section(guide, 'Errors')).keys()]).toEqual([...clientErrorCodes])
  })

  test('lists exactly the headers that are not kept', () => {
    const [, table = ''] = section(guide, 'Where requests are kept').split('| not kept |')
    expect([...table.matchAll(/^\| `(.*)` \|$/gm)].map(([, name]) => name)).toEqual(neverKept)
  })
})
