import { type Browser, chromium } from 'playwright-core'
import { installedProgram } from './debian-program.js'

/** Of its own accord it asks nobody anything. */
const quiet = ['--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']

/** A real Chromium, without a window. */
export async function launchChromium(...more: string[]): Promise<Browser> {
  const { path, env } = await installedProgram('chromium')
  const args = ['--headless', '--no-sandbox', '--disable-gpu', ...quiet, ...more]
  return chromium.launch({ executablePath: path, env: env as Record<string, string>, args })
}
