import { parseArgs } from 'node:util'
import { type Framework, frameworks, type HttpMode, httpModes } from '../sections/titles.js'

const sections = ['store', 'pgbench', 'http', 'one-at-a-time', 'peers', 'redis', 'growth', 'memory', 'fingerprint', 'engine'] as const
type SectionName = (typeof sections)[number]

export const usage = `npm run bench -- [options]
  --only store,pgbench   only these sections: ${sections.join(', ')} (default: all)
  --rounds 5             measured rounds, in each of which every contender has one turn
  --seconds 3            length of a turn
  --adapters koa,hono    a look at these only, in sections that go over HTTP: ${Object.keys(frameworks).join(', ')};
                         fewer and shorter turns, and no file, unless said otherwise
  --modes new,replay     only these requests over HTTP: ${Object.keys(httpModes).join(', ')} (default: all)
  --connections 64       of the clients over HTTP (default: 64,256; with --adapters 64)
  --outstanding 1,64     requests outstanding at the store (default: 1,16,64,256,1024)
  --rows 0,1000000       stored keys in the growth section (default: 1000000,10000000)
  --output FILE          where the JSON goes (default: bench/results/bench.json)
  --quick                smoke run: store, pgbench, http, memory, fingerprint and engine with tiny numbers, no file
Starts a Postgres of its own, or uses the one in DATABASE_URL; its oncekey.keys is emptied.`

export interface Options {
  readonly only: ReadonlySet<SectionName>
  readonly rounds: number
  readonly seconds: number
  readonly adapters: readonly Framework[]
  /** Fastify alone, unless others are chosen: it is about the store. */
  readonly oneAtATime: readonly Framework[]
  readonly modes: readonly HttpMode[]
  readonly connections: readonly number[]
  readonly outstanding: readonly number[]
  readonly rows: readonly number[]
  readonly output: string | undefined
  readonly quick: boolean
}

const whole = {
  sections,
  modes: keysOf(httpModes),
  ...{ connections: '64,256', rounds: '5', seconds: '3', outstanding: '1,16,64,256,1024', rows: '1000000,10000000' },
  output: 'bench/results/bench.json',
} as const
const look = { ...whole, connections: '64', rounds: '3', seconds: '2', output: undefined }
const smoke = {
  sections: ['store', 'pgbench', 'http', 'memory', 'fingerprint', 'engine'],
  modes: ['replay'],
  ...{ connections: '64', rounds: '1', seconds: '1', outstanding: '1,64', rows: '20000' },
  output: undefined,
} as const

export function readOptions(args: string[]): Options | undefined {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      adapters: { type: 'string' },
      modes: { type: 'string' },
      connections: { type: 'string' },
      outstanding: { type: 'string' },
      rows: { type: 'string' },
      output: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return undefined
  const { quick } = values
  const usual = quick ? smoke : values.adapters ? look : whole
  return {
    only: new Set(chosen('section', values.only, usual.sections, sections)),
    adapters: chosen('adapter', values.adapters, keysOf(frameworks)),
    oneAtATime: chosen('adapter', values.adapters, ['fastify'], keysOf(frameworks)),
    modes: chosen('mode', values.modes, usual.modes, keysOf(httpModes)),
    connections: numbers('connections', values.connections ?? usual.connections),
    rounds: number('rounds', values.rounds ?? usual.rounds),
    seconds: number('seconds', values.seconds ?? usual.seconds),
    outstanding: numbers('outstanding', values.outstanding ?? usual.outstanding),
    rows: numbers('rows', values.rows ?? usual.rows),
    output: values.output ?? usual.output,
    quick,
  }
}

function keysOf<Name extends string>(record: Readonly<Record<Name, unknown>>): Name[] {
  return Object.keys(record) as Name[]
}

function chosen<Name extends string>(what: string, text: string | undefined, usual: readonly Name[], all = usual): readonly Name[] {
  return (
    text?.split(',').map((part) => {
      const name = all.find((candidate) => candidate === part.trim())
      if (name) return name
      throw new Error(`There is no ${what} "${part}". Choose from: ${all.join(', ')}`)
    }) ?? usual
  )
}

const numbers = (option: string, text: string) => text.split(',').map((part) => number(option, part))

function number(option: string, text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value > 0)) throw new Error(`--${option} takes a number above 0, not "${text}"`)
  return value
}
