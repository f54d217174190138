import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { keysOf } from './keys.js'

const database = useDatabase()
const program = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

/** The program as it is published, in a process of its own. Its input stays open: whoever waits for an answer would wait for ever. */
const oncekey = (...words: string[]) => oncekeyWith(undefined, ...words)

async function oncekeyWith(input: string | undefined, ...words: string[]) {
  const child = spawn(process.execPath, [program, ...words], { env: { ...process.env, DATABASE_URL: database.url }, stdio: 'pipe' })
  onTestFinished(() => void child.kill('SIGKILL'))
  const texts = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text) => {
    texts.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    texts.err += text
  })
  if (input !== undefined) child.stdin.end(input)
  const exitCode = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { exitCode, ...texts }
}

test('is a program: help, data, refusals and exit codes', async () => {
  const keys = keysOf(database)
  await keys.inDoubt()
  const [help, status, retry, unknown] = await Promise.all([
    oncekey('--help'),
    oncekey('status', '--json'),
    oncekey('retry', ...keys.name, '--yes'),
    oncekey('show', 'nobody'),
  ])
  expect(help).toMatchObject({ exitCode: 0, out: expect.stringContaining('Usage: oncekey'), err: '' })
  expect(JSON.parse(status.out).states).toMatchObject({ parked: 1 })
  expect(retry).toMatchObject({ exitCode: 3, out: '', err: expect.stringContaining('Resolve it') })
  expect(unknown).toMatchObject({ exitCode: 4, out: '' })
})

test('does not wait for an answer without a terminal, and needs none with --yes', async () => {
  const keys = keysOf(database)
  await keys.pending()
  expect(await oncekey('retry', ...keys.name)).toMatchObject({ exitCode: 2, err: expect.stringContaining('pass --yes') })
  const { exitCode, out } = await oncekey('retry', ...keys.name, '--yes', '--by', 'bob')
  expect([exitCode, out]).toEqual([0, 'k is due now: a worker takes it, or the next retry of its client.\n'])
  expect(await keys.trail()).toMatchObject([{ what: 'retried', detail: 'retried by bob' }])
})

test('has no colours in a pipe', async () => {
  const { out } = await oncekey('doctor')
  expect(out).toContain('server')
  expect(out).not.toContain('\x1b')
})

test('reconciles a query with its standard input', async () => {
  const query = 'select n as id from generate_series(1, 3) as n'
  const { exitCode, out } = await oncekeyWith('{"id":1}\n{"id":2}\n{"id":4}\n', 'reconcile', '--sql', query, '--foreign', '-')
  expect([exitCode, out.split('\n').slice(0, 2)]).toEqual([6, ['only-local    3  {"id":3}', 'only-foreign  4  {"id":4}']])
})
