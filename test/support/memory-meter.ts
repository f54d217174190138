import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Returns what measures the bytes in use by this process, after a garbage collection: the heap and the buffers outside it. */
export function memoryMeter(): () => number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  return () => {
    collect()
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
}
