import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres/server.js'

declare module 'vitest' {
  interface ProvidedContext {
    databaseUrl: string
  }
}

/** One Postgres server for the whole run: the one of DATABASE_URL, else one of our own that goes when we do. */
export default async function setup(project: TestProject) {
  const given = process.env.DATABASE_URL
  if (given) {
    project.provide('databaseUrl', given)
    return
  }
  const server = await startPostgres()
  project.provide('databaseUrl', server.url)
  return () => server.stop()
}
