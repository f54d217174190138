// Storages of a real browser in which one entry cannot be read.
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { launchProfile } from '../support/chromium.js'
import { startFront } from './shop-front.js'

async function setup(search: string) {
  // No service: what is sent is redirected, and stays kept.
  const { port } = await startFront(1)
  const folder = await mkdtemp(join(tmpdir(), 'oncekey-profile-'))
  let context = await launchProfile(folder)
  onTestFinished(async () => {
    await context.close()
    await rm(folder, { recursive: true, force: true })
  })
  async function open(): Promise<Page> {
    const page = await context.newPage()
    await page.goto(`http://localhost:${port}/${search}`)
    return page
  }
  async function reopen(between: () => Promise<void>): Promise<Page> {
    await context.close()
    await between()
    context = await launchProfile(folder)
    return open()
  }
  return { folder, open, reopen, lose: `shop.failure('http://localhost:${port}/moved')` }
}

test('in localStorage: half a text, and what is no request', async () => {
  const { open, lose } = await setup('')
  const page = await open()
  expect(await page.evaluate(lose)).toBe('redirected')
  await page.evaluate(`localStorage.setItem('oncekey:pending:half', '{"id":"ha'); localStorage.setItem('oncekey:pending:none', '{}')`)
  expect(await page.evaluate('shop.resume()')).toEqual(['unanswered'])
  expect((await page.evaluate<string[]>('shop.unreadable')).sort()).toEqual(['half: SyntaxError', 'none: TypeError'])
  expect(await page.evaluate('localStorage.length')).toBe(3)
})

test('in IndexedDB: a record whose file the browser has lost', async () => {
  const { folder, open, reopen, lose } = await setup('?indexedDB')
  const page = await open()
  expect(await page.evaluate(lose)).toBe('redirected')
  const [kept] = await page.evaluate<string[]>('shop.keys()')
  // Large values that cannot be compressed stand in files of their own.
  expect(await page.evaluate(`${lose.slice(0, -1)}, 300_000)`)).toBe('redirected')
  const [lost] = (await page.evaluate<string[]>('shop.keys()')).filter((key) => key !== kept)
  const again = await reopen(async () => {
    const files = await readdir(folder, { recursive: true, withFileTypes: true })
    const blobs = files.filter((file) => file.isFile() && file.parentPath.includes('.indexeddb.blob'))
    expect(blobs).toHaveLength(1)
    for (const { parentPath, name } of blobs) await rm(join(parentPath, name))
  })
  expect(await again.evaluate('shop.keys()')).toEqual([kept])
  expect(await again.evaluate('shop.unreadable')).toEqual([`${lost}: NotReadableError`])
  expect(await again.evaluate('shop.resume()')).toEqual(['unanswered'])
})
