import { wrongUsage } from '../exit-codes.js'
import { type DataRecord, type FieldPair, valueAt } from './record.js'

/** Detects mistyped names: such a member is missing from all records of a side, and missing values would be equal. */
export function seenMembers(name: string, compare: readonly FieldPair[], side: 'local' | 'foreign') {
  const unseen = new Set(compare.map((field) => field[side]))
  return {
    note(record: DataRecord): DataRecord {
      for (const path of unseen) if (valueAt(record, path) !== undefined) unseen.delete(path)
      return record
    },
    check(): void {
      const [path] = unseen
      if (path) throw wrongUsage(`No record of ${name} has a member '${path.join('.')}': --compare names what both sides have.`)
    },
  }
}
