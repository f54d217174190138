import { getRequestListener } from '@hono/node-server'
import { onTestFinished } from 'vitest'

const globals = ['Request', 'Response'] as const

/** An application as @hono/node-server serves it. It replaces globals of the process, which other test files share: until the test ends. */
export function honoListener(fetch: Parameters<typeof getRequestListener>[0]): ReturnType<typeof getRequestListener> {
  const before = globals.map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name) as PropertyDescriptor] as const)
  onTestFinished(() => {
    for (const [name, property] of before) Object.defineProperty(globalThis, name, property)
  })
  return getRequestListener(fetch)
}
