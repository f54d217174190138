import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { debianProgram } from './debian-program.js'
import { freePort, startProgram } from './guarded-program.js'
import { waitUntil } from './wait-until.js'

export interface NatsServer {
  readonly port: number
  /** Ends it with SIGKILL. What it keeps stays. */
  kill(): Promise<void>
  /** Starts it again after a kill, on the same port, with what it has kept. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** A NATS server with JetStream, from the PATH or from Debian's packages, that cannot outlive this process. */
export async function startNats(): Promise<NatsServer> {
  const program = await debianProgram('nats-server', ['nats-server'])
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-nats-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  const port = await freePort()

  async function start() {
    const server = startProgram(program, ['--addr', '127.0.0.1', '--port', String(port), '--jetstream', '--store_dir', folder])
    await waitUntil('NATS is ready', () => {
      if (!server.isRunning()) throw new Error(`nats-server did not start: ${server.output()}`)
      return server.output().includes('Server is ready')
    })
    return server
  }

  let server = await start()
  return {
    port,
    kill: () => server.kill(),
    async start() {
      server = await start()
    },
    async stop() {
      await server.kill()
      process.removeListener('exit', remove)
      remove()
    },
  }
}
