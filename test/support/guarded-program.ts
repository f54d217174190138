import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import type { Program } from './debian-program.js'

/** Starts a program that ends with the test file, however that ends. */
export function startProgram({ path, env }: Program, parameters: readonly string[]): { output(): string } {
  const guard = spawn(
    process.execPath,
    [fileURLToPath(new URL('./guarded-program.mjs', import.meta.url)), JSON.stringify({ path, parameters })],
    { env, stdio: ['pipe', 'pipe', 'pipe'], detached: true },
  )
  let output = ''
  for (const stream of [guard.stdout, guard.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  afterAll(() => {
    guard.stdin.end()
  })
  return { output: () => output }
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.on('error', reject).listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number }
      probe.close(() => resolve(port))
    })
  })
}
