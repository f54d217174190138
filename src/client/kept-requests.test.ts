import { expect, onTestFinished, test, vi } from 'vitest'
import { knownNetwork, post, url } from '../../test/clients/known-network.js'
import type { IdempotentFetchOptions } from './options.js'
import type { KeptEntry } from './pending-request.js'
import { memoryStorage } from './storages/memory-storage.js'

const offline = new TypeError('fetch failed')
const request = { id: 'i', key: 'k', createdAt: 0, url, method: 'POST', headers: [], settings: {} }
const lost = new Error('the file is lost')

const broken: [what: string, entry: unknown, error: unknown][] = [
  ['half a text', { id: 'i', json: '{"id":"i' }, expect.any(SyntaxError)],
  ['an empty text', { id: 'i', json: '' }, expect.any(SyntaxError)],
  ['a text that says nothing', { id: 'i', json: 'null' }, expect.any(TypeError)],
  ['what its storage could not read', { id: 'i', error: lost }, lost],
  ['a copy under another name', { id: 'copy of i', json: JSON.stringify(request) }, expect.any(TypeError)],
  ['nothing at all', null, expect.any(TypeError)],
  ['a text instead of an entry', JSON.stringify(request), expect.any(TypeError)],
  ...Object.entries({
    key: 1,
    owner: 7,
    createdAt: '2026-01-01',
    url: null,
    method: undefined,
    headers: { 'content-type': 'text/plain' },
    body: { format: 'of a newer release' },
    settings: 'none',
  }).map(([name, value]): [string, unknown, unknown] => [`another ${name}`, { ...request, [name]: value }, expect.any(TypeError)]),
]

/** A storage with an entry before those that the client keeps. */
function setup(entry: unknown, options: IdempotentFetchOptions = {}) {
  const memory = memoryStorage()
  const storage = { ...memory, list: async () => [entry as KeptEntry, ...(await memory.list())] }
  return knownNetwork([offline, 201], { maxAttempts: 1, storage, ...options })
}

test.each(broken)('%s hides no other request, is reported and stays', async (_, entry, error) => {
  const reported: unknown[] = []
  const { send, storage } = setup(entry, { onUnreadable: (one) => reported.push(one) })
  await expect(send(url, post)).rejects.toMatchObject({ code: 'no_answer' })
  expect(await send.pending()).toMatchObject([{ body: post.body }])
  expect(reported).toEqual([{ id: (entry as KeptEntry | null)?.id, error }])
  expect(await send.resume()).toMatchObject([{ kind: 'answered', request: { body: post.body } }])
  expect(await storage.list()).toEqual([entry])
})

test('by default it is a warning on the console', async () => {
  const warn = vi.spyOn(console, 'warn').mockImplementation(() => {})
  onTestFinished(() => warn.mockRestore())
  const { send } = setup({ id: 'i', error: lost })
  expect(await send.pending()).toEqual([])
  expect(warn.mock.calls).toEqual([[expect.stringContaining('the kept request i cannot be read'), lost]])
})

test('a listener that throws hides no request either', async () => {
  const onUnreadable = () => {
    throw new Error('from the listener')
  }
  const { send } = setup({ id: 'i', error: lost }, { onUnreadable })
  await expect(send(url, post)).rejects.toMatchObject({ code: 'no_answer' })
  expect(await send.resume()).toMatchObject([{ kind: 'answered' }])
})
