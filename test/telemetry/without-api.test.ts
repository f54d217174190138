import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The package as it is published, installed with its dependencies (and those named) in a folder of its own. */
async function installed(...others: string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'oncekey-installed-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const modules = join(folder, 'node_modules')
  await mkdir(join(modules, 'oncekey'), { recursive: true })
  const { dependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { dependencies: Record<string, string> }
  await cp(join(root, 'package.json'), join(modules, 'oncekey/package.json'))
  await cp(join(root, 'dist'), join(modules, 'oncekey/dist'), { recursive: true })
  for (const name of [...Object.keys(dependencies), ...others]) {
    await mkdir(join(modules, name, '..'), { recursive: true })
    await symlink(join(root, 'node_modules', name), join(modules, name))
  }
  return folder
}

const program = `
  import { createOnce, reply } from 'oncekey'
  import { memoryStore } from 'oncekey/memory'
  import { telemetry } from 'oncekey/opentelemetry'

  const api = await import('@opentelemetry/api').then(() => 'installed', ({ code }) => code)
  const told = telemetry({ outboxLagMs: async () => 0 })
  const once = createOnce({ store: memoryStore(), telemetry: told })
  const request = { tenant: 't', scope: 's', key: 'k', fingerprint: false, afterFailure: 'rerun' }
  const kinds = []
  for (const _ of [1, 2]) kinds.push((await once.execute(request, () => reply(201))).kind)
  const thrown = await told.span('oncekey.run', {}, async () => { throw new Error('mine') }).catch(({ message }) => message)
  console.log(JSON.stringify({ api, kinds, thrown }))
`

async function run(folder: string): Promise<unknown> {
  await writeFile(join(folder, 'program.mjs'), program)
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(folder, 'program.mjs')], { cwd: folder })
  expect(stderr).toBe('')
  return JSON.parse(stdout)
}

test('does nothing, and breaks nothing, where @opentelemetry/api is not installed', async () => {
  expect(await run(await installed())).toEqual({ api: 'ERR_MODULE_NOT_FOUND', kinds: ['executed', 'replayed'], thrown: 'mine' })
})

test('does nothing, and breaks nothing, where no SDK is started', async () => {
  expect(await run(await installed('@opentelemetry/api'))).toEqual({ api: 'installed', kinds: ['executed', 'replayed'], thrown: 'mine' })
})

test('needs no types of it either', async () => {
  const folder = await installed()
  await writeFile(
    join(folder, 'app.ts'),
    `import { createOnce, type Telemetry } from 'oncekey'
     import { memoryStore } from 'oncekey/memory'
     import { telemetry, type TelemetryOptions } from 'oncekey/opentelemetry'
     const options: TelemetryOptions = { scopeName: (scope) => scope, keys: true, outboxLagMs: async () => 5 }
     const told: Telemetry = telemetry(options)
     createOnce({ store: memoryStore(), telemetry: told, logger: console })
     createOnce({ store: memoryStore(), telemetry: { onEvent: ({ type }) => type, span: (name, attributes, work) => work() } })
     // @ts-expect-error the lag is a number
     telemetry({ outboxLagMs: async () => 'late' })
    `,
  )
  await symlink(join(root, 'node_modules/@types'), join(folder, 'node_modules/@types'))
  const flags = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--types',
    'node',
    '--skipLibCheck',
    'false',
    '--pretty',
    'false',
  ]
  const compiled = promisify(execFile)(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), ...flags, 'app.ts'], {
    cwd: folder,
  })
  const complaints = await compiled.then(
    ({ stdout }) => stdout,
    ({ stdout }: { stdout: string }) => stdout,
  )
  expect(complaints.split('\n').filter((line) => line.startsWith('app.ts') || line.includes('oncekey/dist/telemetry'))).toEqual([])
  expect(complaints).not.toContain('@opentelemetry')
})
