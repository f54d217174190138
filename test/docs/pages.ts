import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))
export const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** README.md and everything under docs/, as paths from the root. */
export const pages = [
  ...['README.md'].filter((path) => existsSync(join(root, path))),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => `docs/${path.replaceAll('\\', '/')}`)
    .sort(),
]

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
