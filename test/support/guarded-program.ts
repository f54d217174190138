import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import type { Program } from './debian-program.js'

/** A program that cannot outlive this process, however that ends. */
export interface RunningProgram {
  /** Of the process above the program, which has all of the program's own below it. */
  readonly pid: number
  /** What it has printed. */
  output(): string
  isRunning(): boolean
  /** Ends it with SIGKILL, and all processes that it started. */
  kill(): Promise<void>
}

export function startProgram({ path, env }: Program, parameters: readonly string[]): RunningProgram {
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
  guard.stdin.on('error', () => {})
  const gone = once(guard, 'exit')
  return {
    pid: guard.pid as number,
    output: () => output,
    isRunning: () => guard.exitCode === null && guard.signalCode === null,
    async kill() {
      guard.stdin.end()
      await gone
    },
  }
}

/**
 * For a program that cannot choose one itself. Not one of the ports that the system gives to connections, of which tests make thousands: one
 * of them might have it before the program does. Nor is it when 10,000 are added, which Redis does for a cluster.
 */
export function freePort(): Promise<number> {
  const port = randomInt(10_000, 22_000)
  return new Promise((resolve) => {
    const probe = createServer()
    probe.on('error', () => resolve(freePort())).listen(port, '127.0.0.1', () => probe.close(() => resolve(port)))
  })
}
