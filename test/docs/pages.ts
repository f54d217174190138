import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))

const texts = new Map<string, string>()

/** A file by its path from the root. Each is read once: hundreds of tests ask for the same few. */
export function read(path: string): string {
  const text = texts.get(path) ?? readFileSync(join(root, path), 'utf8')
  texts.set(path, text)
  return text
}

/** Everything that is written for people: the pages of the root, all under docs/, and those beside examples and benchmarks. Paths from the root. */
export const pages = [
  'llms.txt',
  ...pagesIn('.', false),
  ...pagesIn('docs', true),
  ...pagesIn('examples', true),
  ...pagesIn('bench', false),
]

function pagesIn(folder: string, recursive: boolean): string[] {
  return readdirSync(join(root, folder), { recursive, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => posix.join(folder, path.replaceAll('\\', '/')))
    .sort()
}

/** The text under a heading of the second level, up to the next one. */
export function section(page: string, heading: string): string {
  const [, text] = read(page).split(`\n## ${heading}\n`)
  if (text === undefined) throw new Error(`${page} has no section "${heading}"`)
  return text.split('\n## ')[0] as string
}

/** The cells of each table row that begins with a name in backticks, by that name. */
export function rows(text: string): Map<string, string[]> {
  const lines = [...text.matchAll(/^\| `([^`]+)` \|(.*)\|$/gm)]
  return new Map(lines.map(([, name, cells]) => [name as string, (cells as string).split('|').map((cell) => cell.trim())]))
}

/** The names in the first cells of all rows of all tables: a cell may have several. */
export function firstCells(text: string): string[] {
  return [...text.matchAll(/^\| ((?:`[^`]+`(?:, )?)+) \|/gm)].flatMap(([, cell]) => (cell as string).replaceAll('`', '').split(', '))
}

/** The heading of the second level whose anchor this is, as GitHub makes it. */
export function headingAt(page: string, anchor: string): string {
  const headings = [...read(page).matchAll(/^## (.*)$/gm)].map(([, heading]) => heading as string)
  const found = headings.find((heading) => slugOf(heading) === anchor)
  if (found === undefined) throw new Error(`${page} has no section #${anchor}`)
  return found
}

/** The anchor that GitHub makes of a heading. */
export function slugOf(heading: string): string {
  const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
  return text.replaceAll(/[^\p{L}\p{M}\p{N}_\- ]/gu, '').replaceAll(' ', '-')
}

/** The names of an interface's own members, from its source text. */
export function membersOf(name: string, path: string): string[] {
  const [, body = ''] = new RegExp(`\\ninterface ${name}\\b[^{]*\\{\\n(.*?)\\n\\}`, 's').exec(read(path).replaceAll('export ', '')) ?? []
  const members = [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??[:(<]/gm)].map(([, member]) => member as string)
  if (members.length === 0) throw new Error(`${path} has no interface ${name} with members`)
  return members
}

/** The values of a discriminating field in a union type, from its source text. */
export function variantsOf(type: string, field: string, path: string): string[] {
  const [, union = ''] = new RegExp(`\\nexport type ${type}\\b(.*?)\\n\\n`, 's').exec(read(path)) ?? []
  const found = new Set([...union.matchAll(new RegExp(`readonly ${field}: '([^']+)'`, 'g'))].map(([, value]) => value as string))
  if (found.size === 0) throw new Error(`${path} has no type ${type} with a field ${field}`)
  return [...found]
}
