/** What one turn of a contender came to. Null: not known there. */
export interface Sample {
  readonly operations: number
  readonly perSecond: number
  readonly meanMs: number | null
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  /** Processor time of the process that asks (the Node process, or pgbench), microseconds per operation. */
  readonly clientCpuMicros: number | null
  /** Processor time of the servers behind it, all of their processes, microseconds per operation. */
  readonly serverCpuMicros: number | null
}

export interface Turn {
  readonly outstanding: number
  readonly seconds: number
}

export interface Contender {
  readonly name: string
  run(turn: Turn): Promise<Sample>
}

/** Contenders that took turns, and what each of them came to in each round. */
export interface Group {
  readonly title: string
  readonly outstanding: number
  /** The contender that the others are shown relative to. */
  readonly reference: string
  readonly samples: Readonly<Record<string, readonly Sample[]>>
}
