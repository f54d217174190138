import { parseArgs } from 'node:util'

const sections = ['store', 'pgbench', 'http', 'peers', 'redis', 'growth', 'memory', 'fingerprint'] as const
type SectionName = (typeof sections)[number]

export const usage = `npm run bench -- [options]
  --only store,pgbench   only these sections: ${sections.join(', ')} (default: all)
  --rounds 5             measured rounds, in each of which every contender has one turn
  --seconds 3            length of a turn
  --outstanding 1,64     requests outstanding at the store (default: 1,16,64,256,1024)
  --rows 0,1000000       stored keys in the growth section (default: 1000000,10000000)
  --output FILE          where the JSON goes (default: bench/results/bench.json)
  --quick                smoke run: store, pgbench, memory and fingerprint with tiny numbers, no file
Starts a Postgres of its own, or uses the one in DATABASE_URL; its oncekey.keys is emptied.`

export interface Options {
  readonly only: ReadonlySet<SectionName>
  readonly rounds: number
  readonly seconds: number
  readonly outstanding: readonly number[]
  readonly rows: readonly number[]
  readonly output: string | undefined
  readonly quick: boolean
}

export function readOptions(args: string[]): Options | undefined {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      outstanding: { type: 'string' },
      rows: { type: 'string' },
      output: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return undefined
  const { quick } = values
  return {
    only: new Set((values.only?.split(',') ?? (quick ? ['store', 'pgbench', 'memory', 'fingerprint'] : sections)).map(sectionNamed)),
    rounds: number('rounds', values.rounds ?? (quick ? '1' : '5')),
    seconds: number('seconds', values.seconds ?? (quick ? '1' : '3')),
    outstanding: numbers('outstanding', values.outstanding ?? (quick ? '1,64' : '1,16,64,256,1024')),
    rows: numbers('rows', values.rows ?? (quick ? '20000' : '1000000,10000000')),
    output: values.output ?? (quick ? undefined : 'bench/results/bench.json'),
    quick,
  }
}

function sectionNamed(text: string): SectionName {
  const name = sections.find((candidate) => candidate === text.trim())
  if (name) return name
  throw new Error(`There is no section "${text}". Choose from: ${sections.join(', ')}`)
}

const numbers = (option: string, text: string) => text.split(',').map((part) => number(option, part))

function number(option: string, text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value > 0)) throw new Error(`--${option} takes a number above 0, not "${text}"`)
  return value
}
