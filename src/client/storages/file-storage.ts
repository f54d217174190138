import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { KeptEntry, PendingStorage } from '../pending-request.js'

/**
 * A folder with a file for each request, for processes on Node. Give each program a folder of its own; processes of one program may share it.
 * Bodies stand in it as they are: only the owner may read it.
 */
export function fileStorage(folder: string): PendingStorage {
  const pathOf = (id: string) => join(folder, `${encodeURIComponent(id)}.json`)

  return {
    async put(request) {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const path = pathOf(request.id)
      // Under another name until it is whole: a crash half-way leaves nothing that is taken for a request.
      const draft = `${path}.draft`
      await synced(draft, 'w', (file) => file.writeFile(JSON.stringify(request)))
      await rename(draft, path)
      // The new name is on the disk, too. Windows does not open folders, and does this by itself.
      if (process.platform !== 'win32') await synced(folder, 'r')
    },
    delete: (id) => rm(pathOf(id), { force: true }),
    async list() {
      const entries: KeptEntry[] = []
      // One at a time: a process may open few files at once.
      for (const name of (await readdir(folder).catch(ignoreMissing)) ?? []) {
        if (!name.endsWith('.json')) continue
        const id = idOf(name)
        try {
          entries.push({ id, json: await readFile(join(folder, name), 'utf8') })
        } catch (error) {
          // Another process may have removed it since.
          if (!isMissing(error)) entries.push({ id, error })
        }
      }
      return entries
    },
  }
}

async function synced(path: string, flags: string, write?: (file: Awaited<ReturnType<typeof open>>) => Promise<void>): Promise<void> {
  const file = await open(path, flags, 0o600)
  try {
    await write?.(file)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Of a file that is not ours the name as it is. */
function idOf(name: string): string {
  const text = name.slice(0, -'.json'.length)
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const isMissing = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ENOENT'

function ignoreMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error
}
