import { readFileSync } from 'node:fs'
import type pg from 'pg'

const millisecondsPerTick = 10

/**
 * Milliseconds of processor time that the connections' server processes have used: on a shared machine the steadiest measure.
 * NaN where it cannot be known, which is on another machine and on systems without /proc.
 */
export async function backendCpuReader(lanes: readonly pg.Client[], serverIsOurs: boolean) {
  if (!serverIsOurs || process.platform !== 'linux') return () => Number.NaN
  const pids = new Map<pg.Client, number>()
  for (const lane of lanes) pids.set(lane, (await lane.query('select pg_backend_pid() as pid')).rows[0].pid)
  return (working: readonly pg.Client[]) => working.reduce((sum, lane) => sum + processorTime(pids.get(lane) as number), 0)
}

function processorTime(pid: number) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The program's name may hold spaces; user and system time are the 12th and 13th field after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * millisecondsPerTick
}
