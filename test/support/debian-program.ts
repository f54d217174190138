import { execFile } from 'node:child_process'
import { access, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const programs = fileURLToPath(new URL('../../node_modules/.cache/oncekey-programs/', import.meta.url))

export interface Program {
  readonly path: string
  /** What it must find in its environment. */
  readonly env: NodeJS.ProcessEnv
}

/**
 * A program that is on this machine, or else one from Debian's packages, unpacked into node_modules: that needs no root and
 * leaves the system as it is. `packages` is the program's package and the libraries that a bare system lacks.
 */
export async function debianProgram(name: string, packages: readonly string[]): Promise<Program> {
  const path = await onPath(name)
  if (path) return { path, env: process.env }
  const root = join(programs, name)
  if (!(await exists(root))) await unpack(name, packages, root)
  // Some need none, and have no such folder.
  const libraries = (await readdir(join(root, 'usr/lib')).catch(() => [])).map((folder) => join(root, 'usr/lib', folder))
  for (const folder of ['usr/sbin', 'usr/bin']) {
    const path = join(root, folder, name)
    if (await exists(path)) return { path, env: { ...process.env, LD_LIBRARY_PATH: libraries.join(delimiter) } }
  }
  throw new Error(`the Debian package of ${name} has no program of that name`)
}

/**
 * The same for a program that needs more libraries than can be named here: installed by apt-get, where we are root. It stays on the system.
 */
export async function installedProgram(name: string): Promise<Program> {
  const path = (await onPath(name)) ?? (await install(name).then(() => onPath(name)))
  if (!path) throw missing(name, name)
  return { path, env: process.env }
}

async function install(name: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  try {
    await run('apt-get', ['-qq', 'update'])
    await run('apt-get', ['-qq', '-y', '-o', 'DPkg::Lock::Timeout=120', 'install', '--no-install-recommends', name], {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    })
  } catch (error) {
    throw missing(name, name, error)
  }
}

async function onPath(name: string): Promise<string | undefined> {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']) {
    if (await exists(join(folder, name))) return join(folder, name)
  }
  return undefined
}

const missing = (name: string, debianPackage: string, cause?: unknown) =>
  new Error(`this test needs ${name}: put it on the PATH (on Debian: apt-get install ${debianPackage})`, { cause })

async function unpack(name: string, packages: readonly string[], root: string): Promise<void> {
  const work = `${root}.${process.pid}`
  await mkdir(join(work, 'lists/partial'), { recursive: true })
  await mkdir(join(work, 'cache/archives/partial'), { recursive: true })
  const own = [`Dir::State::lists=${work}/lists`, `Dir::Cache=${work}/cache`, 'Debug::NoLocking=1', 'APT::Sandbox::User=']
  const options = ['-qq', ...own.flatMap((option) => ['-o', option])]
  try {
    await run('apt-get', [...options, 'update'], { cwd: work })
    await run('apt-get', [...options, 'download', ...packages], { cwd: work })
    for (const file of await readdir(work)) {
      if (file.endsWith('.deb')) await run('dpkg-deb', ['-x', file, 'root'], { cwd: work })
    }
    await rename(join(work, 'root'), root)
  } catch (error) {
    // Another test file was faster.
    if (await exists(root)) return
    throw missing(name, packages[0] as string, error)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
