import { createReadStream, statSync } from 'node:fs'
import { connect } from '../../src/cli/connect.js'
import { connectRedis } from '../../src/cli/connect-redis.js'
import { run } from '../../src/cli/program.js'
import type { World } from '../../src/cli/world.js'

export interface Ended {
  readonly exitCode: number
  readonly out: string
  readonly err: string
  /** The JSON document of `--json`. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into documents of many shapes.
  readonly data: any
}

/**
 * The program with a real database, and with whatever terminal and person the test wants. Nobody is there to answer unless `ask` is
 * given, so a command that forgot to ask would show.
 */
export function commandLine(url: string | undefined, world: Partial<World> = {}) {
  return async (...words: string[]): Promise<Ended> => {
    let out = ''
    let err = ''
    const exitCode = await run(
      {
        env: { DATABASE_URL: url },
        user: 'alice',
        print: (text) => {
          out += text
        },
        drained: async () => {},
        read: (path) => createReadStream(path),
        size: async (path) => statSync(path, { throwIfNoEntry: false })?.size,
        tell: (text) => {
          err += text
        },
        columns: undefined,
        colours: false,
        progress: false,
        ask: undefined,
        now: () => Date.now(),
        pause: async () => {},
        connect: (address) => connect(address, process.cwd()),
        connectRedis: (address) => connectRedis(address, process.cwd()),
        ...world,
      },
      words,
    )
    return { exitCode, out, err, data: words.includes('--json') ? JSON.parse(out) : undefined }
  }
}
