import { fork } from 'node:child_process'
import { existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { inject, onTestFinished } from 'vitest'

/** A real process of ours, which can be frozen, continued and killed. */
export interface Child {
  readonly pid: number
  /** The next message from the child, whether it came already or not; rejects if the child dies first. */
  message<T = unknown>(): Promise<T>
  send(message: unknown): void
  signal(name: NodeJS.Signals): void
}

/**
 * Runs a TypeScript file under test/ in a process of its own. `settings` reach it as JSON in its first argument. It is
 * killed when the test ends, frozen or not, unless `atTheEnd` puts that off.
 */
export function startChild(file: string, settings: object, atTheEnd: (kill: () => void) => void = onTestFinished): Child {
  const child = fork(bundled(file), [JSON.stringify(settings)], { execArgv: [], serialization: 'advanced' })
  const arrived: unknown[] = []
  const awaited: { resolve(message: unknown): void; reject(error: Error): void }[] = []
  let gone: Error | undefined

  child.on('message', (message) => {
    const waiter = awaited.shift()
    if (waiter) waiter.resolve(message)
    else arrived.push(message)
  })
  child.on('exit', (code, signal) => {
    gone = new Error(`the process ended (${signal ?? code}) without the message that was waited for`)
    for (const { reject } of awaited.splice(0)) reject(gone)
  })
  atTheEnd(() => void child.kill('SIGKILL'))

  return {
    pid: child.pid as number,
    message<T>() {
      if (arrived.length > 0) return Promise.resolve(arrived.shift() as T)
      if (gone) return Promise.reject(gone)
      return new Promise<T>((resolve, reject) => {
        awaited.push({ resolve: resolve as (message: unknown) => void, reject })
      })
    },
    // Who is dead by now does not hear it; that shows in the message that does not come.
    send: (message) => void child.send(message as never, () => {}),
    signal: (name) => void process.kill(child.pid as number, name),
  }
}

/**
 * One plain file of the child and the sources: compiling in each of fifty processes would take most of a test's time. It is made once in a
 * run, by whoever needs it first.
 */
function bundled(file: string): string {
  const path = join(inject('childBundles'), file.replaceAll('/', '-').replace('.ts', ''))
  const outfile = `${path}.mjs`
  if (existsSync(outfile)) return outfile
  const own = `${path}-${process.pid}.mjs`
  const entry = fileURLToPath(new URL(`../${file}`, import.meta.url))
  buildSync({ entryPoints: [entry], outfile: own, bundle: true, platform: 'node', format: 'esm', packages: 'external', logLevel: 'error' })
  // Two may make it at once: each of them puts a whole file there.
  renameSync(own, outfile)
  return outfile
}
