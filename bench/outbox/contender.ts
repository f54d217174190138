/** One library on the server that all of them share. */
export interface Outbox {
  readonly name: string
  /** Puts so many jobs into its tables, in as few statements as it offers. */
  fill(jobs: number): Promise<void>
  /** Stages one job in a transaction of its own, and says when its commit was acknowledged. */
  stage(job: number): Promise<number>
  /** Delivers until it is stopped; `handle` is told of each job. What it has handled is settled when the stop has ended. */
  deliver(handle: (job: number) => void, mode: 'throughput' | 'latency'): Promise<{ stop(): Promise<void> }>
  /** How many jobs are left that are not settled. */
  left(): Promise<number>
  /** As before the first job. */
  clear(): Promise<void>
  close(): Promise<void>
}

/** What all of them have at their disposal. */
export const connections = 12
export const payloadOf = (job: number) => ({ job, note: 'a'.repeat(200) })
