import { OncekeyError } from '../../core/errors.js'
import type { Sink } from '../sink.js'
import { functionSink, type JobFunction } from './function-sink.js'

interface SinkFinder {
  /** The job names that have a sink; undefined for all. */
  readonly names: readonly string[] | undefined
  find(name: string): Sink
}

/** Finds the sink of a job by its name. */
export function sinkFinder({
  sink,
  sinks = {},
}: {
  readonly sink?: Sink | JobFunction | undefined
  readonly sinks?: Readonly<Record<string, Sink | JobFunction>> | undefined
}): SinkFinder {
  const byName = new Map(Object.entries(sinks).map(([name, each]) => [name, sinkOf(each, name)]))
  const other = sink === undefined ? undefined : sinkOf(sink, 'sink')
  if (!other && byName.size === 0) {
    throw new OncekeyError('option_invalid', 'relay() needs a sink, or sinks by the names of their jobs: pass sink or sinks.')
  }
  return {
    names: other ? undefined : [...byName.keys()],
    // Without a sink for all, jobs of other names are never taken.
    find: (name) => byName.get(name) ?? (other as Sink),
  }
}

function sinkOf(given: Sink | JobFunction, what: string): Sink {
  if (typeof given === 'function') return functionSink(given, given.name ? {} : { name: what })
  const { maxBatch } = given ?? {}
  const isSized = maxBatch === undefined || (Number.isInteger(maxBatch) && maxBatch > 0)
  if (typeof given?.deliver === 'function' && typeof given.name === 'string' && isSized) return given
  throw new OncekeyError(
    'option_invalid',
    `The sink of ${what} must be a function, or have a name, deliver() and optionally a positive maxBatch.`,
  )
}
