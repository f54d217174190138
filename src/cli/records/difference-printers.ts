import type { Difference, ReconcileSummary } from '../../reconcile/reconcile.js'
import { complaintOf } from '../complaint.js'
import type { ExitCode } from '../exit-codes.js'
import { painter } from '../paint.js'
import { printable, printableJson } from '../words.js'
import type { World } from '../world.js'
import { type DataRecord, type FieldPair, valueAt } from './record.js'

type Found = Difference<DataRecord>

export interface DifferencePrinter {
  difference(difference: Found): void
  summary(summary: ReconcileSummary): void
  /** A stream was not read to its end. */
  failed(error: unknown): ExitCode
}

/** A line for each. */
export function textPrinter(world: World, compare: readonly FieldPair[]): DifferencePrinter {
  const paint = painter(world.colours)
  let printed = 0
  return {
    difference(difference) {
      printed += 1
      const line = `${paint('red', difference.kind.padEnd(12))}  ${printable(String(difference.key))}  ${printable(inWords(difference, compare))}`
      world.print(`${line}\n`)
    },
    summary({ equal, differs, onlyLocal, onlyForeign, unsettled }) {
      const count = (number: number) => number.toLocaleString('en')
      const parts = [
        `${count(equal)} equal`,
        `${count(differs)} different`,
        `${count(onlyLocal)} only here`,
        `${count(onlyForeign)} only there`,
      ]
      world.print(`${[...parts, `${count(unsettled)} in progress`].join(', ')}.\n`)
    },
    failed(error) {
      if (printed > 0) world.tell('It stopped half-way: what is printed above may be wrong.\n')
      throw error
    },
  }
}

function inWords(difference: Found, compare: readonly FieldPair[]): string {
  if (difference.kind === 'only-local') return difference.local.text.trim()
  if (difference.kind === 'only-foreign') return difference.foreign.text.trim()
  const { fields, local, foreign } = difference
  const shown = (value: unknown) => JSON.stringify(value ?? null)
  const differing = compare.filter(({ name }) => fields.includes(name))
  return differing
    .map((field) => `${field.name}: ${shown(valueAt(local, field.local))} here, ${shown(valueAt(foreign, field.foreign))} there`)
    .join('; ')
}

/** One document, written in pieces: the differences need not fit into memory. */
export function jsonPrinter(world: World): DifferencePrinter {
  let printed = 0
  const end = (last: object) => {
    const members = JSON.stringify(last, null, 2).slice(1, -1).trimEnd()
    world.print(`${printed === 0 ? '{\n  "differences": [' : '\n  '}],${printableJson(members)}\n}\n`)
  }
  return {
    difference({ kind, key, ...both }) {
      const sides = Object.fromEntries(
        Object.entries(both).map(([name, side]) => [name, name === 'fields' ? side : (side as DataRecord).value]),
      )
      world.print(`${printed === 0 ? '{\n  "differences": [' : ','}\n    ${printableJson(JSON.stringify({ kind, key, ...sides }))}`)
      printed += 1
    },
    summary: (summary) => end({ summary }),
    failed(error) {
      const data = complaintOf(error)
      world.tell(`${data.message}\n`)
      end({ error: data })
      return data.exitCode
    },
  }
}
