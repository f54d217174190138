// What the processes of this example have in common: each says where it listens, ends when its supervisor does, and can be told to crash.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { answering } from './http.js'

let isToCrash = false
let end = async () => {}

process.on('message', ({ crash }: { crash: boolean }) => {
  isToCrash = crash
})
// The terminal sends Ctrl-C to everybody: who started us decides when we end.
process.on('SIGINT', () => {})
// The supervisor lets go of us, or is gone, whatever ended it.
process.once('disconnect', () => void end().finally(() => process.exit()))
if (process.send && !process.connected) process.exit()

/**
 * The worst moment for a crash: the provider has charged, its answer is here, and nobody has written it down. A real death, not an error:
 * no `finally` runs.
 */
export const fetchThatMayBeTheLast: typeof fetch = async (input, init) => {
  const response = await fetch(input, init)
  if (isToCrash) process.kill(process.pid, 'SIGKILL')
  return response
}

/** `close` ends what the process has open, for a clean end. */
export function listen(answer: Parameters<typeof answering>[0], close: () => Promise<unknown> = async () => {}): void {
  const server = createServer(answering(answer))
  end = async () => {
    server.closeAllConnections()
    server.close()
    await close()
  }
  server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
}
