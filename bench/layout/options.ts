import { parseArgs } from 'node:util'
import { digest, type Layout, layouts } from './layouts.js'

export const usage = `npm run bench:layout -- [options]
  --rows 0,1000000,10000000   rows that the tables hold before the rounds
  --layouts serial,split      only these layouts (default: all; from --alone-from rows on, the contenders)
  --rounds 6                  measured rounds per layout, after one for warming up
  --seconds 2.5               length of a round
  --body 300                  bytes of an answer's body
  --batch 64                  rows per statement, four statements outstanding
  --no-single                 leave out the rounds with one statement per request
  --alone-from 5000000        from so many rows on, one layout at a time, beside an empty twin
  --output FILE               where the JSON goes (default: bench/results/layout.json)
  --quick                     smoke run: few rows, short rounds, no file
Uses the server in DATABASE_URL, or starts one.`

export interface Options {
  rows: number[]
  layouts: readonly Layout[]
  contenders: readonly Layout[]
  rounds: number
  seconds: number
  aloneFrom: number
  bodyBytes: number
  batch: number
  single: boolean
  output: string | undefined
  quick: boolean
}

export function readOptions(args: string[]): Options | undefined {
  const { values } = parseArgs({
    args,
    options: {
      rows: { type: 'string' },
      layouts: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      'alone-from': { type: 'string' },
      body: { type: 'string' },
      batch: { type: 'string' },
      'no-single': { type: 'boolean', default: false },
      output: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return undefined
  const { quick } = values
  const chosen = values.layouts?.split(',').map(layoutNamed)
  return {
    rows: (values.rows ?? (quick ? '0,10000,20000' : '0,1000000,10000000')).split(',').map((rows) => number('rows', rows)),
    layouts: chosen ?? layouts,
    contenders: chosen ?? layouts.filter((layout) => layout.contender).slice(0, quick ? 2 : undefined),
    rounds: number('rounds', values.rounds ?? (quick ? '1' : '6')),
    seconds: number('seconds', values.seconds ?? (quick ? '0.1' : '2.5')),
    aloneFrom: number('alone-from', values['alone-from'] ?? (quick ? '20000' : '5000000')),
    bodyBytes: number('body', values.body ?? '300'),
    batch: number('batch', values.batch ?? '64'),
    single: !values['no-single'],
    output: values.output ?? (quick ? undefined : 'bench/results/layout.json'),
    quick,
  }
}

function layoutNamed(name: string) {
  const layout = layouts.find((candidate) => candidate.name === name.trim())
  if (layout) return layout
  const fillFactor = /^digest ff(\d+)$/.exec(name.trim())?.[1]
  if (fillFactor) return digest(Number(fillFactor))
  throw new Error(
    `There is no layout "${name}". Choose from: ${layouts.map((candidate) => candidate.name).join(', ')}, digest ff10 to ff100`,
  )
}

function number(option: string, text: string) {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0)) throw new Error(`--${option} takes a number, not "${text}"`)
  return value
}
