import { once } from 'node:events'
import { createReadStream, promises as files } from 'node:fs'
import { userInfo } from 'node:os'
import process from 'node:process'
import { createInterface } from 'node:readline'
import type { Session } from './connect.js'
import { connect } from './connect.js'
import { connectRedis, type RedisSession } from './connect-redis.js'

/** Everything outside the program, so that tests can replace it. */
export interface World {
  readonly env: Readonly<Record<string, string | undefined>>
  /** The name in the audit trail, unless `--by` gives one. */
  readonly user: string
  /** Standard output: results. */
  print(text: string): void
  /** Waits until standard output has drained. */
  drained(): Promise<void>
  /** The bytes of a file; of standard input for `-`. */
  read(path: string): AsyncIterable<Uint8Array>
  /** Their size; undefined if unknown: standard input, a pipe, a missing file. */
  size(path: string): Promise<number | undefined>
  /** Standard error: errors, questions, progress. */
  tell(text: string): void
  /** The width of the terminal, if standard output is one. */
  readonly columns: number | undefined
  readonly colours: boolean
  /** Whether a line that is rewritten in place is visible. */
  readonly progress: boolean
  /** Undefined without a terminal. */
  readonly ask: ((question: string) => Promise<string>) | undefined
  now(): number
  pause(ms: number): Promise<void>
  connect(url: string): Promise<Session>
  connectRedis(url: string): Promise<RedisSession>
}

export function realWorld(): World {
  const { env, stdin, stdout, stderr } = process
  return {
    env,
    user: userName(),
    print: (text) => void stdout.write(text),
    async drained() {
      if (stdout.writableNeedDrain) await once(stdout, 'drain')
    },
    read: (path) => (path === '-' ? stdin : createReadStream(path)),
    size: sizeOf,
    tell: (text) => void stderr.write(text),
    columns: stdout.isTTY ? stdout.columns : undefined,
    // https://no-color.org: any value but an empty one.
    colours: Boolean(stdout.isTTY) && !env.NO_COLOR && env.TERM !== 'dumb',
    progress: Boolean(stderr.isTTY),
    ask: stdin.isTTY && stderr.isTTY ? question : undefined,
    now: () => Date.now(),
    pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    connect: (url) => connect(url, process.cwd()),
    connectRedis: (url) => connectRedis(url, process.cwd()),
  }
}

async function sizeOf(path: string): Promise<number | undefined> {
  if (path === '-') return undefined
  const found = await files.stat(path).catch(() => undefined)
  return found?.isFile() ? found.size : undefined
}

function question(text: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  return new Promise((resolve) => {
    // Ctrl-C and Ctrl-D close it without an answer, which counts as no.
    lines.once('close', () => resolve(''))
    lines.question(text, (answer) => {
      resolve(answer)
      lines.close()
    })
  })
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // A container may run under a user id without a name.
    return process.env.USER ?? 'unnamed'
  }
}
