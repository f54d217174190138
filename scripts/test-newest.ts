// The test suite on the newest Node, installed when this runs; options are those of vitest. Children of the tests find it on the PATH, too.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nodeOf } from '../test/support/npm-program.js'

const major = '26'
const root = fileURLToPath(new URL('..', import.meta.url))
const program = await nodeOf(major)
const env = { ...process.env, PATH: `${dirname(program)}:${process.env.PATH}` }
const vitest = spawn(program, [join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...process.argv.slice(2)], {
  cwd: root,
  env,
  stdio: 'inherit',
})
const [code] = await once(vitest, 'exit')
process.exitCode = code ?? 1
