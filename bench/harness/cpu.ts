import { readdirSync, readFileSync } from 'node:fs'

/** Milliseconds of processor time so far; NaN where it cannot be known. */
export type CpuMeter = () => number

export const unknownCpu: CpuMeter = () => Number.NaN

const millisecondsPerTick = 10

/** Of a process and all below it, those included that have ended: a server counts with its backends and background processes. */
export function treeCpu(root: number): CpuMeter {
  if (process.platform !== 'linux') return unknownCpu
  return () => {
    const parents = new Map<number, number>()
    const times = new Map<number, number>()
    for (const name of readdirSync('/proc')) {
      const stat = /^\d+$/.test(name) ? statOf(Number(name)) : undefined
      if (!stat) continue
      parents.set(Number(name), stat.parent)
      times.set(Number(name), stat.milliseconds)
    }
    let sum = 0
    for (const [pid, time] of times) if (isBelow(pid, root, parents)) sum += time
    return sum
  }
}

export function parentOf(pid: number): number | undefined {
  return process.platform === 'linux' ? statOf(pid)?.parent : undefined
}

function isBelow(pid: number, root: number, parents: ReadonlyMap<number, number>): boolean {
  for (let at: number | undefined = pid; at; at = parents.get(at)) if (at === root) return true
  return false
}

function statOf(pid: number): { parent: number; milliseconds: number } | undefined {
  const fields = fieldsOf(pid)
  if (!fields) return undefined
  // User and system time of itself, then of its children that have ended.
  const ticks = [11, 12, 13, 14].reduce((sum, index) => sum + Number(fields[index]), 0)
  return { parent: Number(fields[1]), milliseconds: ticks * millisecondsPerTick }
}

/** What /proc says of a process behind its name, which may hold spaces: state, parent, …; undefined if it has ended. */
function fieldsOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}

/** Of the programs that this process has started and that have ended. */
export const endedChildrenCpu: CpuMeter = () => {
  if (process.platform !== 'linux') return Number.NaN
  const fields = fieldsOf(process.pid)
  return fields ? (Number(fields[13]) + Number(fields[14])) * millisecondsPerTick : Number.NaN
}

/** From now on: the share of the processors' time that other machines on the same host took away. Null where that is not known. */
export function stolenShare(): () => number | null {
  if (process.platform !== 'linux') return () => null
  const times = () => readFileSync('/proc/stat', 'utf8').split('\n', 1)[0]?.split(/\s+/).slice(1, 9).map(Number) as number[]
  const before = times()
  return () => {
    const spent = times().map((time, index) => time - (before[index] as number))
    const all = spent.reduce((sum, time) => sum + time, 0)
    return all > 0 ? Number(((spent[7] as number) / all).toFixed(3)) : null
  }
}
