import { once } from 'node:events'
import { createReadStream, promises as files } from 'node:fs'
import { userInfo } from 'node:os'
import process from 'node:process'
import { createInterface } from 'node:readline'
import type { Session } from './connect.js'
import { connect } from './connect.js'
import { connectRedis, type RedisSession } from './connect-redis.js'

/** Everything outside of the program, so that tests can be somebody who answers, or a terminal. */
export interface World {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Who is named in the trail unless `--by` says otherwise. */
  readonly user: string
  /** Standard output: what was asked for. */
  print(text: string): void
  /** Waits until standard output has taken what was printed, if it is slow. */
  drained(): Promise<void>
  /** The bytes of a file; of standard input if it is `-`. */
  read(path: string): AsyncIterable<Uint8Array>
  /** How many bytes that are; undefined where nobody knows: of standard input, a pipe, a file that is not there. */
  size(path: string): Promise<number | undefined>
  /** Standard error: complaints, questions, progress. */
  tell(text: string): void
  /** The width of the terminal, if standard output is one. */
  readonly columns: number | undefined
  readonly colours: boolean
  /** Whether a line that is written over and over can be seen. */
  readonly progress: boolean
  /** Undefined when nobody is there to answer. */
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
    // Ctrl-C and Ctrl-D close it without an answer, which is a no.
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
    // A container may run as a number that has no name.
    return process.env.USER ?? 'unnamed'
  }
}
