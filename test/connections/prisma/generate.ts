import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../../', import.meta.url))

/** Generates Prisma's client from the schema beside this file, into a folder of its own under node_modules, and returns the folder. */
export async function generateClient(): Promise<string> {
  const cache = join(root, 'node_modules/.cache')
  await mkdir(cache, { recursive: true })
  const folder = await mkdtemp(join(cache, 'prisma-test-'))
  await copyFile(new URL('./schema.prisma', import.meta.url), join(folder, 'schema.prisma'))
  const prisma = createRequire(import.meta.url).resolve('prisma/build/index.js')
  await run(process.execPath, [prisma, 'generate', '--schema', 'schema.prisma'], {
    cwd: folder,
    // It wants an engine, which it would fetch from the network, and does not use it: any program will do.
    env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' },
  })
  return folder
}

/** Says what the compiler finds wrong with a file that stands beside the generated client; nothing if nothing is. */
export async function compile(folder: string, file: string): Promise<string> {
  const tsc = join(root, 'node_modules/.bin/tsc')
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023', '--types', 'node']
  return run(tsc, ['--ignoreConfig', ...options, file], { cwd: folder }).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  )
}
