// What the package exports, read from its sources: there is no compiler to ask.
import { dirname, join } from 'node:path'
import { read } from './pages.js'

export interface Declared {
  readonly name: string
  readonly isType: boolean
  /** Of the file that declares it. */
  readonly path: string
}

/** The source of each entry point of package.json, by the name it is imported by. */
export const entryPoints = new Map(
  Object.entries((JSON.parse(read('package.json')) as { exports: Record<string, string | { types: string }> }).exports).flatMap(
    ([subpath, target]): [string, string][] =>
      typeof target === 'string'
        ? []
        : [[`oncekey${subpath.slice(1)}`, target.types.replace('./dist/', 'src/').replace(/\.d\.ts$/, '.ts')]],
  ),
)

/** All that a file exports, its own and what it passes on, by name. */
export function exportsOf(path: string): Map<string, Declared> {
  const source = read(path)
  const found = new Map<string, Declared>()
  const add = (declared: Declared, as = declared.name) => found.set(as, { ...declared, name: as })
  const fromFile = (specifier: string) => exportsOf(join(dirname(path), specifier).replace(/\.js$/, '.ts'))

  for (const [, kind = '', name = ''] of source.matchAll(/^export (?:async )?(function\*?|class|const|interface|type) (\w+)/gm)) {
    add({ name, isType: kind === 'interface' || kind === 'type', path })
  }
  for (const [, only, specifier = ''] of source.matchAll(/^export (type )?\* from '([^']+)'/gm)) {
    for (const declared of fromFile(specifier).values()) add({ ...declared, isType: declared.isType || only !== undefined })
  }
  for (const [, only, list = '', specifier = ''] of source.matchAll(/^export (type )?\{([^}]*)\} from '([^']+)'/gm)) {
    const declared = fromFile(specifier)
    for (const item of list.split(',').map((text) => text.trim())) {
      if (item === '') continue
      const [name = '', as = name] = item.replace(/^type /, '').split(' as ')
      const known = declared.get(name)
      if (!known) throw new Error(`${path} exports ${name}, which ${specifier} does not have`)
      add({ ...known, isType: known.isType || only !== undefined || item.startsWith('type ') }, as)
    }
  }
  const lines = [...source.matchAll(/^export .*/gm)].map(([line]) => line)
  const unread = lines.filter((line) => !/^export (async )?(function|class|const|interface|type|\*|\{)/.test(line))
  if (unread.length > 0) throw new Error(`${path}: this kind of export is not known here: ${unread.join('; ')}`)
  return found
}

/** The names of an interface's members, and where they come from: its own and picked ones, and those of what it extends. */
export interface Members {
  readonly own: readonly string[]
  readonly inherited: readonly { readonly from: string; readonly names: readonly string[] }[]
}

/** Undefined for a type that is no interface and has no members of its own. */
export function membersOfType(name: string, path: string): Members | undefined {
  const source = read(path)
  const [, extended, body] =
    new RegExp(`^(?:export )?interface ${name}\\b(?:<.*?>)?(?: extends (.*?))? \\{\\n(.*?)^\\}`, 'ms').exec(source) ?? []
  const [, literal] = new RegExp(`^export type ${name}\\b.*?& \\{\\n(.*?)^ {2}\\}`, 'ms').exec(source) ?? []
  const text = body ?? literal?.replaceAll(/^ {2}/gm, '')
  if (text === undefined) return undefined
  const own = [...text.matchAll(/^ {2}(?:readonly )?(\w+)\??[:(<]/gm)].map(([, member]) => member as string)
  const picked: string[] = []
  const plain = (extended ?? '').replaceAll(/Pick<\w+(?:<\w+>)?, ((?:'\w+'(?: \| )?)+)>/g, (_, names: string) => {
    picked.push(...[...names.matchAll(/'(\w+)'/g)].map(([, member]) => member as string))
    return ''
  })
  const bases = [...plain.replaceAll(/<[^<>]*>/g, '').matchAll(/\w+/g)].map(([base]) => base)
  const inherited = bases.flatMap((base) => {
    const members = membersOfType(base, fileOf(base, path))
    return members ? [{ from: base, names: members.own }, ...members.inherited] : []
  })
  return { own: [...own, ...picked], inherited }
}

/** The file that declares a name which this one uses. */
function fileOf(name: string, path: string): string {
  const imported = [...read(path).matchAll(/^import [^']*? from '(\.[^']+)'/gm)].find(([line]) => new RegExp(`\\b${name}\\b`).test(line))
  return imported ? join(dirname(path), imported[1] as string).replace(/\.js$/, '.ts') : path
}
