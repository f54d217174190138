import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

export interface RunningExample {
  readonly url: string
  readonly supervisor: ChildProcess
  /** Ends it as Ctrl-C does. */
  stop(): Promise<void>
}

export const newFolder = () => mkdtemp(join(tmpdir(), 'oncekey-orders-'))
export const removeFolder = (folder: string) => rm(folder, { recursive: true, force: true })

/** The supervisor as `npm start` runs it, on a port and in a folder of its own. */
export function startSupervisor(folder: string, port = 0) {
  const supervisor = spawn(process.execPath, ['--import', 'tsx', 'examples/orders/supervisor.ts'], {
    cwd: root,
    env: { ...process.env, PORT: String(port), DATA_DIR: folder, DATABASE_URL: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return supervisor
}

/** Resolves when it says that it is ready. */
export async function startExample(folder: string): Promise<RunningExample> {
  const supervisor = startSupervisor(folder)
  supervisor.stderr.pipe(process.stderr)
  const url = await new Promise<string>((resolve, reject) => {
    createInterface(supervisor.stdout).on('line', (line) => {
      const [address] = /http:\/\/localhost:\d+/.exec(line) ?? []
      if (address) resolve(address)
    })
    supervisor.once('exit', (code) => reject(new Error(`the example ended before it was ready (${code})`)))
  })
  return {
    url,
    supervisor,
    async stop() {
      if (supervisor.exitCode !== null || supervisor.signalCode !== null) return
      supervisor.kill('SIGINT')
      await once(supervisor, 'exit')
    },
  }
}
