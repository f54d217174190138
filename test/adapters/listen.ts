import type { RequestListener, Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Listens on a free port; closing cuts what is still open. */
export async function listen(listener: RequestListener | Server): Promise<{ url: string; close(): Promise<void> }> {
  const server = typeof listener === 'function' ? createServer(listener) : listener
  if (!server.listening) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
