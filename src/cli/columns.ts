/** Rows as aligned columns. The last one is not padded; `right` lists columns to align right. */
export function columns(rows: readonly (readonly string[])[], { right = [] }: { right?: readonly number[] } = {}): string[] {
  const widths = rows.reduce<number[]>((all, row) => row.map((cell, at) => Math.max(all[at] ?? 0, cell.length)), [])
  const pad = (cell: string, at: number) => (right.includes(at) ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0))
  return rows.map((row) => row.map(pad).join('  ').trimEnd())
}
