import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { debianProgram } from '../../test/support/debian-program.js'
import type { Contender, Sample } from '../harness/contender.js'
import { endedChildrenCpu } from '../harness/cpu.js'
import { perOperation } from '../harness/load.js'
import type { BenchServer } from '../harness/server.js'
import { type Captured, captureStatements } from './captured-statements.js'

export const pgbenchNames = {
  prepared: 'pgbench, 16 clients, prepared',
  unprepared: 'pgbench, 16 clients',
  batched: 'pgbench, batches of 64, prepared',
} as const

/** As the store sends its statements by default, and as it does behind a pooler. */
const protocols = { prepared: 'prepared', unprepared: 'extended' } as const
type Protocol = keyof typeof protocols

const rowsPerBatch = 64
/** More than any machine claims in a second, so that a turn has enough. */
const batchesPerSecond = 3_000
const run = promisify(execFile)

interface Script {
  /** Parameters of pgbench: the file, and the values of its variables. */
  readonly parameters: readonly string[]
  readonly rows: number
}

/** The store's own statements, without Node: what a program that does nothing else gets out of the same server. */
export async function pgbenchContenders(server: BenchServer, { seconds }: { seconds: number }): Promise<Contender[] | string> {
  const program = await debianProgram('pgbench', ['postgresql']).catch(() => undefined)
  if (!program) return 'pgbench is not on the PATH (on Debian: apt-get install postgresql): what is measured against it is left out.'
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-pgbench-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const batches = Math.ceil(batchesPerSecond * seconds)
  await createBatches(server, batches)
  const single = await script('single', 1, 'md5(:number)', ['\\set number random(1, 9000000000000000000)'])
  const batched = await script('batched', rowsPerBatch, '(select ids from bench_batches where number = :batch)', [
    '\\set turn :turn + 1',
    '\\set batch :client_id * :share + :turn',
    // To run out of batches would be to do nothing, fast.
    '\\if :turn > :share',
    'select 1 / 0;',
    '\\endif',
  ])
  await checkScript(single, [])
  await checkScript(batched, ['-D', 'turn=0', '-D', `share=${batches}`])

  return [
    { name: pgbenchNames.unprepared, run: (turn) => measure(single, 'unprepared', 16, turn.seconds, []) },
    { name: pgbenchNames.prepared, run: (turn) => measure(single, 'prepared', 16, turn.seconds, []) },
    {
      name: pgbenchNames.batched,
      run: (turn) => {
        const clients = Math.max(1, Math.round(turn.outstanding / rowsPerBatch))
        return measure(batched, 'prepared', clients, turn.seconds, ['-D', 'turn=0', '-D', `share=${Math.floor(batches / clients)}`])
      },
    },
  ]

  async function script(name: string, rows: number, unique: string, head: readonly string[]): Promise<Script> {
    const file = join(folder, `${name}.sql`)
    const definitions: string[] = []
    const statements = (await captureStatements(server, rows)).map((captured) => bind(captured, unique, definitions))
    writeFileSync(file, `${[...head, ...statements].join('\n')}\n`)
    return { parameters: ['-f', file, ...definitions.flatMap((definition) => ['-D', definition])], rows }
  }

  async function pgbench(protocol: Protocol, parameters: readonly string[]): Promise<string> {
    const { path, env } = program as NonNullable<typeof program>
    const { stdout } = await run(path, ['-n', '-M', protocols[protocol], ...parameters, server.url], { env, maxBuffer: 16 * 1024 * 1024 })
    return stdout
  }

  /** That it does what the store does: as many keys are finished as there are rows in it. */
  async function checkScript({ parameters, rows }: Script, more: readonly string[]): Promise<void> {
    await server.reset()
    await pgbench('prepared', [...parameters, ...more, '-c', '1', '-t', '2'])
    const { rows: found } = await server.admin.query(
      `select count(*)::integer as finished from oncekey.keys where state = 'complete' and length(answer_body) = 300`,
    )
    if (found[0].finished !== 2 * rows) throw new Error(`pgbench finished ${found[0].finished} keys, and not ${2 * rows}`)
  }

  async function measure(
    { parameters, rows }: Script,
    protocol: Protocol,
    clients: number,
    seconds: number,
    more: readonly string[],
  ): Promise<Sample> {
    const cpuBefore = endedChildrenCpu()
    const serverBefore = server.cpu()
    const threads = Math.min(2, clients)
    const length = Math.max(1, Math.round(seconds))
    const output = await pgbench(protocol, [...parameters, ...more, '-c', String(clients), '-j', String(threads), '-T', String(length)])
    const operations = rows * Number(/actually processed: (\d+)/.exec(output)?.[1])
    return {
      operations,
      perSecond: rows * Number(/^tps = ([\d.]+)/m.exec(output)?.[1]),
      p50Ms: null,
      p99Ms: null,
      clientCpuMicros: perOperation(endedChildrenCpu() - cpuBefore, operations),
      serverCpuMicros: perOperation(server.cpu() - serverBefore, operations),
    }
  }
}

/** The statement with pgbench's variables in the place of parameters. What differs from key to key is `unique`, an expression. */
function bind({ text, parameters }: Captured, unique: string, definitions: string[]): string {
  const bound = text.replaceAll(/\$(\d+)\b/g, (_, number: string) => {
    const parameter = parameters[Number(number) - 1] as Captured['parameters'][number]
    const { type, varies, value } = parameter
    if (varies) return `(${unique}::${type})`
    if (value === null) return `(null::${type})`
    const name = `value_${definitions.length}`
    definitions.push(`${name}=${value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : value}`)
    return `(:${name}::${type})`
  })
  return `${bound.trim()};`
}

/** pgbench cannot put arrays together, so the keys of each batch lie ready in a table. */
async function createBatches({ admin }: BenchServer, count: number): Promise<void> {
  await admin.query('drop table if exists bench_batches')
  await admin.query('create unlogged table bench_batches (number integer primary key, ids text not null)')
  await admin.query('alter table bench_batches alter column ids set storage plain')
  await admin.query(
    `insert into bench_batches
     select number, '{' || (select string_agg(gen_random_uuid()::text, ',') from generate_series(1, $2) where number > 0) || '}'
     from generate_series(1, $1::integer) as number`,
    [count, rowsPerBatch],
  )
  await admin.query('vacuum analyze bench_batches')
}
