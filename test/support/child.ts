import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

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
 * killed when the test ends, frozen or not.
 */
export function startChild(file: string, settings: object): Child {
  const path = fileURLToPath(new URL(`../${file}`, import.meta.url))
  const child = fork(path, [JSON.stringify(settings)], { execArgv: ['--import', 'tsx'], serialization: 'advanced' })
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
  onTestFinished(() => {
    child.kill('SIGKILL')
  })

  return {
    pid: child.pid as number,
    message<T>() {
      if (arrived.length > 0) return Promise.resolve(arrived.shift() as T)
      if (gone) return Promise.reject(gone)
      return new Promise<T>((resolve, reject) => {
        awaited.push({ resolve: resolve as (message: unknown) => void, reject })
      })
    },
    send: (message) => child.send(message as never),
    signal: (name) => void process.kill(child.pid as number, name),
  }
}

/** In the child: the settings that the test passed. */
export function childSettings<T>(): T {
  return JSON.parse(process.argv[2] as string) as T
}

/** In the child: tells the test something. */
export function tellParent(message: unknown): void {
  process.send?.(message)
}

/** In the child: waits for the test's next word. */
export function wordFromParent(): Promise<unknown> {
  return new Promise((resolve) => process.once('message', resolve))
}
