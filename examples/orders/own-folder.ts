import { createHash } from 'node:crypto'
import { rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/**
 * Makes this process the only one on a folder, until it ends. PGlite has no lock, and two processes would ruin each other's files. A
 * socket that listens is a lock that cannot be left behind: the system closes it, whatever ends its owner. One that is about to end is given
 * `patienceMs` to be gone.
 */
export async function ownFolder(folder: string, patienceMs = 3_000): Promise<void> {
  const name = `oncekey-orders-${createHash('sha256').update(resolve(folder)).digest('hex').slice(0, 16)}`
  const path = process.platform === 'win32' ? `\\\\.\\pipe\\${name}` : join(tmpdir(), `${name}.sock`)
  const end = performance.now() + patienceMs
  while (!(await listens(path))) {
    if (!(await answers(path))) await rm(path, { force: true })
    else if (performance.now() > end) {
      throw new Error(`${folder} is in use by another process. Stop that one, or choose another folder: DATA_DIR=.data/second npm start`)
    }
  }
  process.once('exit', () => rmSync(path, { force: true }))
}

function listens(path: string): Promise<boolean> {
  const server = createServer((socket) => socket.destroy()).unref()
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => (error.code === 'EADDRINUSE' ? resolve(false) : reject(error)))
    server.listen(path, () => resolve(true))
  })
}

/** What is left of a dead owner is a name that nobody answers at. */
function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy()
      setTimeout(resolve, 100, true)
    })
    socket.once('error', () => resolve(false))
  })
}
