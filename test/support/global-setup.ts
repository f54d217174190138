import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres/server.js'

declare module 'vitest' {
  interface ProvidedContext {
    databaseUrl: string
  }
}

/**
 * The package, built, because examples use it by its name. And one Postgres server for the whole run: the one of DATABASE_URL, else one
 * of our own that goes when we do.
 */
export default async function setup(project: TestProject) {
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: fileURLToPath(new URL('../..', import.meta.url)), stdio: 'inherit' })
  const given = process.env.DATABASE_URL
  if (given) {
    project.provide('databaseUrl', given)
    return
  }
  // What dies in these tests is our own processes, not the server: without fsync a busy disk cannot outlast a lease.
  const server = await startPostgres({ flags: { fsync: 'off' } })
  project.provide('databaseUrl', server.url)
  return () => server.stop()
}
