import { expect, test } from 'vitest'
import { packed, unpacked } from './pending-request.js'
import { snapshotOf } from './snapshot.js'

const url = 'https://shop.example/charges'

test('a form is whole, and its media type names its own boundary, also after it was kept', async () => {
  const form = new FormData()
  form.set('amount', '100')
  form.set('receipt', new Blob([Uint8Array.of(0, 255, 13, 10)]), 'receipt.bin')
  const { headers, body } = await snapshotOf(url, { method: 'POST', body: form })
  const read = await new Response(unpacked(packed(body)) as Uint8Array<ArrayBuffer>, { headers }).formData()
  expect(read.get('amount')).toBe('100')
  expect(new Uint8Array(await (read.get('receipt') as File).arrayBuffer())).toEqual(Uint8Array.of(0, 255, 13, 10))
})

test('what init says stands before what the Request says', async () => {
  const request = new Request(url, { method: 'POST', headers: { 'x-a': '1' }, credentials: 'include', redirect: 'error' })
  const { headers, settings, method } = await snapshotOf(request, { headers: { 'x-b': '2' }, redirect: 'manual', method: 'patch' })
  expect([...headers]).toEqual([['x-b', '2']])
  expect(settings).toMatchObject({ credentials: 'include', redirect: 'manual' })
  expect(method).toBe('PATCH')
})

test('an address that is none is an error at once', async () => {
  await expect(snapshotOf('/charges', { method: 'POST' })).rejects.toThrow('Invalid URL')
})
