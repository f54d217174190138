import { createServer } from 'node:net'

const [lowest, count] = [20_000, 12_000]
let last = process.pid * 37

/**
 * A port for a service that is told one, and listens seconds later. It is below those that the system hands out to whoever asks: one of
 * these may be somebody else's by then.
 */
export async function ownPort(): Promise<number> {
  last += 1
  const port = lowest + (last % count)
  return (await isFree(port)) ? port : ownPort()
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false)).listen(port, () => probe.close(() => resolve(true)))
  })
}
