import { defineConfig } from 'vitest/config'
import { PatientFirst } from './test/support/patient-first.js'

/** Files that change what belongs to the whole process, or depend on it: the providers of OpenTelemetry; what a process is warned of once. */
const alone = ['test/telemetry/{events,metrics,traces}.test.ts', 'test/postgres/encoding-warnings.test.ts']

export default defineConfig({
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    sequence: { sequencer: PatientFirst },
    // Much of the suite waits for leases and processes, not for a core.
    maxWorkers: 3,
    // In the order of their names. Files share a process unless they need one of their own: starting it and loading the sources
    // takes longer than most files. And each project compiles the sources for itself.
    projects: [project('1-together', ['src/**/*.test.ts', 'test/**/*.test.ts'], alone, { isolate: false }), project('2-alone', alone, [])],
  },
})

function project(name: string, include: string[], exclude: string[], { isolate = true } = {}) {
  // Long enough for a machine that others use, too: what hangs is found all the same.
  const timeouts = { testTimeout: 240_000, hookTimeout: 240_000 }
  return { test: { name, include, exclude, isolate, pool: 'forks' as const, restoreMocks: true, ...timeouts } }
}
