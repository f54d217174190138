import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { onTestFinished } from 'vitest'

export const run = promisify(execFile)

interface PackedFile {
  readonly path: string
  readonly mode: number
}

/** Outside of the repository, so that nothing is found by accident. */
export async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'oncekey-package-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** `npm pack` of a folder: the tarball, and what is in it. */
export async function pack(from: string, into: string, ...flags: string[]): Promise<{ tarball: string; files: PackedFile[] }> {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', into, ...flags], { cwd: from, maxBuffer: 1e8 })
  const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string; files: PackedFile[] }]
  return { tarball: join(into, filename), files }
}
