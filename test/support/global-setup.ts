import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres/server.js'
import { createTemplate, onServer } from './postgres/template.js'

declare module 'vitest' {
  interface ProvidedContext {
    databaseUrl: string
    /** The name of a migrated database on that server, to be copied. */
    migratedTemplate: string
    /** A folder for what child processes run. */
    childBundles: string
  }
}

/**
 * The package, built, because examples use it by its name. And one Postgres server for the whole run: the one of DATABASE_URL, else one
 * of our own that goes when we do.
 */
export default async function setup(project: TestProject) {
  const [, server] = await Promise.all([build(), openServer()])
  const template = await createTemplate(server.url)
  project.provide('databaseUrl', server.url)
  project.provide('migratedTemplate', template)
  const bundles = newBundlesFolder()
  project.provide('childBundles', bundles)
  // When a source has changed, what was made of it is old.
  project.onTestsRerun(() => emptied(bundles))
  return async () => {
    rmSync(bundles, { recursive: true })
    await onServer(server.url, `drop database ${template}`)
    await server.stop()
  }
}

/** Below node_modules, so that packages are found from there. */
function newBundlesFolder(): string {
  const folder = fileURLToPath(new URL('../../node_modules/.cache/oncekey-children/', import.meta.url))
  mkdirSync(folder, { recursive: true })
  return mkdtempSync(join(folder, 'run-'))
}

function emptied(folder: string): void {
  for (const name of readdirSync(folder)) rmSync(join(folder, name))
}

async function build(): Promise<void> {
  const npm = spawn('npm', ['run', '--silent', 'build'], { cwd: fileURLToPath(new URL('../..', import.meta.url)), stdio: 'inherit' })
  const [code] = await once(npm, 'exit')
  if (code !== 0) throw new Error('the package does not build: the lines above say why')
}

async function openServer(): Promise<{ url: string; stop(): Promise<void> }> {
  const given = process.env.DATABASE_URL
  if (given) return { url: given, stop: async () => {} }
  // What dies in these tests is our own processes, not the server: without fsync a busy disk cannot outlast a lease, and pages need not
  // be kept whole for a recovery that never comes.
  return startPostgres({ flags: { fsync: 'off', full_page_writes: 'off' } })
}
