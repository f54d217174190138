import { createReadStream, createWriteStream, promises as files } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promises as streams } from 'node:stream'
import { type CompareKeys, keyOrder, type ReconcileKey } from '../../reconcile/key-order.js'
import { linesOf } from './lines.js'
import { type DataRecord, keyAt, recordOf } from './record.js'

/** A record without its parsed value, which takes twice the room. */
interface Keyed {
  readonly key: ReconcileKey
  readonly text: string
  readonly where: string
}

/** Characters of each side sorted in memory; the rest waits in files. */
const charactersAtOnce = 8 * 1024 * 1024

/** Any number of records in the order of their keys: sorted in parts, which are written to a temporary folder and merged. */
export async function* sorted(
  records: AsyncIterable<DataRecord>,
  path: readonly string[],
  atOnce: number = charactersAtOnce,
): AsyncGenerator<DataRecord, void, undefined> {
  const compareKeys = keyOrder<ReconcileKey>('bytes')
  const folder = await files.mkdtemp(join(tmpdir(), 'oncekey-sort-'))
  try {
    const parts: string[] = []
    let part: Keyed[] = []
    let characters = 0
    for await (const record of records) {
      part.push(keyed(record, path))
      characters += record.text.length
      if (characters < atOnce) continue
      parts.push(await written(inOrder(part), join(folder, String(parts.length))))
      part = []
      characters = 0
    }
    const all = [...parts.map((file) => readBack(file, path)), inOrder(part)]
    for await (const { text, where } of merged(all, compareKeys)) yield recordOf(text, where)
  } finally {
    await files.rm(folder, { recursive: true, force: true })
  }

  function inOrder(part: Keyed[]): Keyed[] {
    return part.sort((one, other) => compareKeys(one.key, other.key))
  }
}

async function written(part: readonly Keyed[], file: string): Promise<string> {
  function* lines() {
    // With its origin, for errors.
    for (const { text, where } of part) yield `${JSON.stringify(where)}\t${text.trimEnd()}\n`
  }
  await streams.pipeline(lines, createWriteStream(file))
  return file
}

async function* readBack(file: string, path: readonly string[]): AsyncGenerator<Keyed, void, undefined> {
  for await (const { text } of linesOf(file, createReadStream(file))) {
    const at = text.indexOf('\t')
    yield keyed(recordOf(text.slice(at + 1), JSON.parse(text.slice(0, at)) as string), path)
  }
}

function keyed(record: DataRecord, path: readonly string[]): Keyed {
  return { key: keyAt(record, path), text: record.text, where: record.where }
}

async function* merged(
  parts: readonly (AsyncIterable<Keyed> | Iterable<Keyed>)[],
  compareKeys: CompareKeys<ReconcileKey>,
): AsyncGenerator<Keyed, void, undefined> {
  const open: { head: Keyed; readonly rest: AsyncIterator<Keyed> | Iterator<Keyed> }[] = []
  try {
    for (const part of parts) {
      const rest = Symbol.asyncIterator in part ? part[Symbol.asyncIterator]() : part[Symbol.iterator]()
      const { done, value } = await rest.next()
      if (!done) open.push({ head: value, rest })
    }
    while (open.length > 0) {
      const first = open.reduce((best, each) => (compareKeys(each.head.key, best.head.key) < 0 ? each : best))
      yield first.head
      const { done, value } = await first.rest.next()
      if (done) open.splice(open.indexOf(first), 1)
      else first.head = value
    }
  } finally {
    await Promise.all(open.map(({ rest }) => rest.return?.()))
  }
}
