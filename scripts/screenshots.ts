// Re-makes the pictures in docs/images/ from a real run of `npm start`, in Chromium. Run it as `npm run docs:screenshots`, and look at them.
import { mkdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { newFolder, removeFolder, startExample } from '../test/examples/running-example.js'
import { launchChromium } from '../test/support/chromium.js'

const width = 1100
const images = fileURLToPath(new URL('../docs/images/', import.meta.url))
const folder = await newFolder()
const [example, browser] = await Promise.all([startExample(folder), launchChromium()])
try {
  await mkdir(images, { recursive: true })
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: 'light', deviceScaleFactor: 1.15 })
  await page.goto(example.url)
  await press(page, 'Crash both servers mid-charge')
  await picture(page, 'demo-crash')
  await press(page, 'New order')
  await press(page, 'Send 50 at once')
  await picture(page, 'demo-fifty-at-once')
} finally {
  await browser.close()
  await example.stop()
  await removeFolder(folder)
}

async function press(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name, exact: true }).click()
  await page.waitForFunction(`document.body.dataset.underWay === '0'`)
}

/** The page down to the two shops. */
async function picture(page: Page, name: string): Promise<void> {
  // No button looks pressed, and the receipt has had the time to be sent.
  await page.mouse.move(0, 0)
  await page.waitForFunction(`document.querySelector('#with .orders').textContent.includes('receipt sent')`)
  const shops = await page.locator('.columns').boundingBox()
  const height = Math.ceil((shops?.y ?? 0) + (shops?.height ?? 0) + 24)
  await page.screenshot({ path: `${images}${name}.png`, clip: { x: 0, y: 0, width, height }, fullPage: true })
}
