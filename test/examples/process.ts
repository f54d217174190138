import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { TestContext } from 'vitest'
import { ownPort } from './own-port.js'

export const root = fileURLToPath(new URL('../..', import.meta.url))

type Env = Readonly<Record<string, string>>

export interface RunningExample {
  readonly url: string
  kill(): void
  /** Ends it as a platform does, and tells its exit code, or the signal that it ended by. */
  stop(): Promise<number | string | null>
}

/**
 * What Node is started with for a file of examples/. Compiling as it is loaded, as `npx tsx` does, takes three times as long to start, so
 * that is for long runs; else it is compiled to one plain file first.
 */
async function startedWith(file: string): Promise<string[]> {
  if (process.env.ONCEKEY_LONG === '1') return ['--import', 'tsx', `examples/${file}`]
  const known = compiled.get(file) ?? compile(file)
  compiled.set(file, known)
  return [await known]
}

const compiled = new Map<string, Promise<string>>()

/** Below the root, where `oncekey` is this package, and named by what is in it: others may run the same tests in the same moment. */
async function compile(file: string): Promise<string> {
  const options = { bundle: true, platform: 'node', format: 'esm', packages: 'external', write: false } as const
  const { outputFiles } = await build({ absWorkingDir: root, entryPoints: [`examples/${file}`], ...options })
  const [{ contents } = { contents: new Uint8Array() }] = outputFiles
  const folder = join(root, '.data/examples')
  const path = join(folder, `${createHash('sha256').update(contents).digest('hex').slice(0, 16)}.mjs`)
  await mkdir(folder, { recursive: true })
  await writeFile(`${path}.${process.pid}`, contents)
  await rename(`${path}.${process.pid}`, path)
  return path
}

async function spawnExample(file: string, parameters: readonly string[], env: Env) {
  const child = spawn(process.execPath, [...(await startedWith(file)), ...parameters], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text
  })
  return { child, complaints: () => complaints }
}

/** Starts a service of examples/ on a port of its own, and waits until it says that it is ready. */
export async function startExample(file: string, env: Env, { onTestFinished }: TestContext): Promise<RunningExample> {
  const port = await ownPort()
  const { child, complaints } = await spawnExample(file, [], { ...env, PORT: String(port) })
  onTestFinished(() => void child.kill('SIGKILL'))
  const gone = once(child, 'close') as Promise<[code: number | null, signal: string | null]>
  await new Promise<void>((resolve, reject) => {
    createInterface(child.stdout).on('line', (line) => line.startsWith('Ready') && resolve())
    gone.then(() => reject(new Error(`${file} ended before it was ready: ${complaints()}`)))
  })
  return {
    url: `http://localhost:${port}`,
    kill: () => void child.kill('SIGKILL'),
    async stop() {
      child.kill('SIGTERM')
      const [code, signal] = await gone
      return code ?? signal
    },
  }
}

/** Runs a script of examples/ to its end, and tells what it has printed. */
export async function runExample(file: string, parameters: readonly string[], env: Env): Promise<string> {
  const { child, complaints } = await spawnExample(file, parameters, env)
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${file} ended with ${code}: ${complaints()}`)
  return output.trim()
}

export interface Answer {
  readonly status: number
  readonly replayed: string | null
  readonly body: string
}

export async function post(url: string, headers: Env, body: string): Promise<Answer> {
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })
  return { status: response.status, replayed: response.headers.get('idempotent-replayed'), body: await response.text() }
}

/** Ends the leases of processes that were killed: nothing waits for them. */
export const endLeases = 'update oncekey.keys set locked_until = clock_timestamp() where locked_until > clock_timestamp()'
