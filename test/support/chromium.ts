import { type Browser, type BrowserContext, chromium } from 'playwright-core'
import { installedProgram } from './debian-program.js'

/** Of its own accord it asks nobody anything. */
const quiet = ['--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']

/** A real Chromium, without a window. */
export async function launchChromium(...more: string[]): Promise<Browser> {
  return chromium.launch(await launchOptions(more))
}

/** The same with a profile that outlives it. */
export async function launchProfile(folder: string): Promise<BrowserContext> {
  return chromium.launchPersistentContext(folder, await launchOptions([]))
}

async function launchOptions(more: readonly string[]) {
  const { path, env } = await installedProgram('chromium')
  const args = ['--headless', '--no-sandbox', '--disable-gpu', ...quiet, ...more]
  return { executablePath: path, env: env as Record<string, string>, args }
}
