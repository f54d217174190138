import { execFile } from 'node:child_process'
import { access, mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const programs = fileURLToPath(new URL('../../node_modules/.cache/oncekey-programs/', import.meta.url))

/**
 * A program that npm has, installed when it is asked for: a runtime weighs a hundred megabytes, which not every `npm install` should fetch.
 * `name` is the package for this platform, because that of all platforms fetches it by an install script, which npm may refuse to run.
 */
export async function npmProgram(name: string, version: string, file: string): Promise<string> {
  const folder = join(programs, `${name.replaceAll('/', '-')}@${version}`)
  const program = join(folder, 'node_modules', name, file)
  if (await exists(program)) return program
  const own = `${folder}-${process.pid}`
  await mkdir(own, { recursive: true })
  const quick = ['--no-save', '--no-package-lock', '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline']
  try {
    await run('npm', ['install', ...quick, '--prefix', own, `${name}@${version}`], { cwd: own })
    await rm(folder, { recursive: true, force: true })
    // Two may install it at once: each of them puts a whole folder there.
    await rename(own, folder)
  } catch (error) {
    await rm(own, { recursive: true, force: true })
    if (!(await exists(program))) throw new Error(`npm cannot install ${name}@${version}: is a registry in reach?`, { cause: error })
  }
  return program
}

/** The newest Node of a major version; the one that runs this, if it is of that version. */
export function nodeOf(major: string): string | Promise<string> {
  if (process.versions.node.startsWith(`${major}.`)) return process.execPath
  return npmProgram(`node-${process.platform}-${process.arch}`, major, 'bin/node')
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )
