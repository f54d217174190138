import type { Contender, Sample } from '../harness/contender.js'
import { findPgbench, noPgbench, type Protocol, scriptFile } from '../harness/pgbench.js'
import type { BenchServer } from '../harness/server.js'
import { type Captured, captureStatements } from './captured-statements.js'

export const pgbenchNames = {
  prepared: 'pgbench, 16 clients, prepared',
  unprepared: 'pgbench, 16 clients',
  batched: 'pgbench, batches of 64, prepared',
} as const

const rowsPerBatch = 64
/** More than any machine claims in a second, so that a turn has enough. */
const batchesPerSecond = 3_000

interface Script {
  /** Parameters of pgbench: the file, and the values of its variables. */
  readonly parameters: readonly string[]
  readonly rows: number
}

/** The store's own statements, without Node: what a program that does nothing else gets out of the same server. */
export async function pgbenchContenders(server: BenchServer, { seconds }: { seconds: number }): Promise<Contender[] | string> {
  const found = await findPgbench(server)
  if (!found) return noPgbench
  const pgbench = found
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
    const definitions: string[] = []
    const statements = (await captureStatements(server, rows)).map((captured) => bind(captured, unique, definitions))
    return {
      parameters: ['-f', scriptFile(name, [...head, ...statements]), ...definitions.flatMap((definition) => ['-D', definition])],
      rows,
    }
  }

  /** That it does what the store does: as many keys are finished as there are rows in it. */
  async function checkScript({ parameters, rows }: Script, more: readonly string[]): Promise<void> {
    await server.reset()
    await pgbench.run('prepared', [...parameters, ...more, '-c', '1', '-t', '2'])
    const { rows: found } = await server.admin.query(
      `select count(*)::integer as finished from oncekey.keys where state = 'complete' and length(answer_body) = 300`,
    )
    if (found[0].finished !== 2 * rows) throw new Error(`pgbench finished ${found[0].finished} keys, and not ${2 * rows}`)
  }

  function measure(
    { parameters, rows }: Script,
    protocol: Protocol,
    clients: number,
    seconds: number,
    more: readonly string[],
  ): Promise<Sample> {
    return pgbench.sample(protocol, [...parameters, ...more], { clients, seconds, rows })
  }
}

/** The statement with pgbench's variables in the place of parameters. What differs from key to key is `unique`, an expression. */
function bind({ text, parameters }: Captured, unique: string, definitions: string[]): string {
  const bound = text.replaceAll(/\$(\d+)\b/g, (_, number: string) => {
    const parameter = parameters[Number(number) - 1] as Captured['parameters'][number]
    const { type, varies, value } = parameter
    if (varies) return `(${unique}::${type})`
    if (value === null) return `(null::${type})`
    // pgbench has no variables without characters.
    if (value === '') return `(''::${type})`
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
