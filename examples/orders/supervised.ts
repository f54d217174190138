import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** A process that is started again whenever it dies. */
export interface Supervised {
  readonly pid: number | undefined
  readonly state: 'starting' | 'up' | 'restarting'
  readonly deaths: number
  readonly url: string
  send(message: object): void
  /** Lets it end cleanly. */
  stop(): Promise<void>
}

/** It has as long as this to end by itself. */
const patienceMs = 10_000

/** Then it is not the crash that somebody asked for. */
const maxFailedStarts = 5

/** Resolves once it listens; rejects if it ends before that. */
export async function supervise(name: string, file: string, env: Record<string, string>): Promise<Supervised> {
  let child: ChildProcess
  let state: Supervised['state'] = 'starting'
  let deaths = 0
  let port = 0
  let isStopping = false
  let failedStarts = 0

  const start = () =>
    new Promise<void>((resolve, reject) => {
      // The same port in each life, so that nobody has to be told.
      child = fork(fileURLToPath(new URL(file, import.meta.url)), {
        execArgv: ['--import', 'tsx'],
        env: { ...process.env, ...env, PORT: String(port) },
      })
      child.on('message', (message) => {
        port = (message as { port: number }).port
        state = 'up'
        failedStarts = 0
        console.log(`  ${name}: up as process ${child.pid}`)
        resolve()
      })
      child.once('exit', (code, signal) => {
        if (isStopping) return
        if (state === 'starting') reject(new Error(`${name} did not start: the lines above say why.`))
        else restart(signal ?? `exit code ${code}`)
      })
    })

  function restart(reason: string): void {
    state = 'restarting'
    deaths += 1
    failedStarts += 1
    if (failedStarts > maxFailedStarts) {
      console.error(`${name} does not start any more: the lines above say why.`)
      process.exit(1)
    }
    console.log(`  ${name}: process ${child.pid} died (${reason}), starting it again`)
    void start()
  }

  await start()
  return {
    get pid() {
      return child.pid
    },
    get state() {
      return state
    },
    get deaths() {
      return deaths
    },
    get url() {
      return `http://127.0.0.1:${port}`
    },
    send: (message) => void child.send(message, () => {}),
    async stop() {
      isStopping = true
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      if (child.connected) child.disconnect()
      const impatience = setTimeout(() => child.kill('SIGKILL'), patienceMs)
      await gone
      clearTimeout(impatience)
    },
  }
}
