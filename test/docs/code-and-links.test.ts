// All code in the pages compiles, and all links lead somewhere.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { pages, read, root, slugOf } from './pages.js'

interface CodeBlock {
  readonly page: string
  /** Of the opening fence, from 1. */
  readonly line: number
  /** A module in which everything of the page but this block and its prelude is blank, so that lines are those of the page. */
  readonly module: string
}

/**
 * The ```ts blocks of a page. Each is a module of its own. What it needs but should not show goes into a comment right before
 * it: <!-- ts-prelude: declare const pool: import('pg').Pool -->
 */
function codeBlocks(page: string): CodeBlock[] {
  const lines = read(page).split('\n')
  const blocks: CodeBlock[] = []
  for (let at = 0; at < lines.length; at += 1) {
    const [, fence, language] = /^ *(`{3,}|~{3,}) *(\w*)/.exec(lines[at] as string) ?? []
    if (fence === undefined) continue
    const end = lines.findIndex((line, index) => index > at && line.trim() === fence)
    if (end === -1) throw new Error(`${page}:${at + 1}: this code block is never closed`)
    if (language === 'ts' || language === 'typescript') {
      const module = lines.map((line, index) => (index > at && index < end ? line : ''))
      for (const [index, line] of preludeBefore(lines, at)) module[index] = line
      blocks.push({ page, line: at + 1, module: module.join('\n') })
    }
    at = end
  }
  return blocks
}

/** The lines of a prelude that ends right before line `at`, without the marks of the comment. */
function preludeBefore(lines: readonly string[], at: number): [index: number, line: string][] {
  let last = at - 1
  while (lines[last]?.trim() === '') last -= 1
  if (!lines[last]?.trimEnd().endsWith('-->')) return []
  let first = last
  while (first > 0 && !lines[first]?.includes('<!--')) first -= 1
  if (!lines[first]?.includes('<!-- ts-prelude:')) return []
  return lines.slice(first, last + 1).map((line, offset) => [first + offset, line.replace('<!-- ts-prelude:', '').replace('-->', '')])
}

/** The subpaths of the package, as they are published, but pointing at the sources. */
function sourcePaths(): Record<string, string[]> {
  const { exports } = JSON.parse(read('package.json')) as { exports: Record<string, string | { types: string }> }
  const paths: Record<string, string[]> = {}
  for (const [subpath, target] of Object.entries(exports)) {
    if (typeof target === 'string') continue
    const source = target.types.replace('./dist/', 'src/').replace(/\.d\.ts$/, '.ts')
    paths[`oncekey${subpath.slice(1)}`] = [join(root, source)]
  }
  return paths
}

test('every ts block compiles', async () => {
  const blocks = pages.flatMap(codeBlocks)
  const cache = join(root, 'node_modules/.cache')
  await mkdir(cache, { recursive: true })
  const folder = await mkdtemp(join(cache, 'oncekey-docs-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))

  const pageOf = new Map(blocks.map((block) => [`${block.page.replaceAll('/', '__')}-${block.line}.ts`, block]))
  for (const [name, { module }] of pageOf) await writeFile(join(folder, name), module)
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  const compilerOptions = { paths: sourcePaths(), moduleDetection: 'force', noUnusedLocals: false, noUnusedParameters: false }
  const config = { extends: join(root, 'tsconfig.json'), compilerOptions, include: [], files: [...pageOf.keys()] }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))

  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const output = await promisify(execFile)(process.execPath, [compiler, '--noEmit', '--pretty', 'false', '-p', folder], {
    cwd: folder,
  }).then(
    ({ stdout }) => stdout,
    ({ stdout, message }: { stdout?: string; message: string }) => stdout || message,
  )
  const complaints = output.replaceAll(/^(\S+\.ts)\((\d+),(\d+)\):/gm, (all, file: string, line: string, column: string) => {
    const block = pageOf.get(basename(file))
    return block ? `${block.page}:${line}:${column}` : all
  })
  expect(complaints).toBe('')
})

test('no code is written in a language that nobody compiles', () => {
  const found = pages.flatMap((page) =>
    [...read(page).matchAll(/^ *(?:`{3,}|~{3,}) *(jsx?|tsx|mjs|javascript)\b/gm)].map(([, name]) => `${page}: ${name}`),
  )
  expect(found).toEqual([])
})

test('every block with a client of Redis listens for its errors: else the process ends when Redis goes', () => {
  const blocks = pages.flatMap(codeBlocks).filter(({ module }) => /from '(@redis\/client|redis|ioredis)'/.test(module))
  expect(blocks.length).toBeGreaterThan(1)
  for (const { page, line, module } of blocks)
    expect([`${page}:${line}`, module.includes(".on('error', ")]).toEqual([`${page}:${line}`, true])
})

/** The text without code, in which brackets and hashes mean nothing. Lines stay where they are. */
function prose(page: string): string {
  const withoutBlocks = read(page).replaceAll(/^ *(`{3,}|~{3,})[\s\S]*?^ *\1 *$/gm, (block) => block.replaceAll(/[^\n]/g, ''))
  return withoutBlocks.replaceAll(/(`+)[^\n]*?\1/g, (code) => code.replaceAll(/[[\]()]/g, ' '))
}

const anchorsOf = new Map<string, Set<string>>()

/** The anchors of a page, as GitHub makes them of its headings. */
function anchors(page: string): Set<string> {
  const known = anchorsOf.get(page)
  if (known) return known
  const found = new Set<string>()
  anchorsOf.set(page, found)
  for (const [, heading = ''] of prose(page).matchAll(/^#{1,6} +(.*?) *#*$/gm)) {
    const slug = slugOf(heading)
    let anchor = slug
    for (let count = 1; found.has(anchor); count += 1) anchor = `${slug}-${count}`
    found.add(anchor)
  }
  for (const [, id = ''] of prose(page).matchAll(/<a (?:id|name)="([^"]+)"/g)) found.add(id)
  return found
}

/** What is wrong with the links of a page that lead into this repository. */
function brokenLinks(page: string): string[] {
  const text = prose(page)
  const links = [
    ...text.matchAll(/\]\(<?([^)\s>]+)>?(?: +"[^"]*")?\)/g),
    ...text.matchAll(/^\[[^\]]+\]: *(\S+)/gm),
    ...text.matchAll(/ (?:href|src|srcset)="([^"]+)"/g),
  ]
  return links.flatMap(({ 1: link = '', index }) => {
    if (/^([a-z][a-z\d+.-]*:|\/\/)/i.test(link)) return []
    const [path = '', anchor] = decodeURIComponent(link).split('#')
    const from = path.startsWith('/') ? root : dirname(join(root, page))
    const target = path === '' ? page : relative(root, resolve(from, path.replace(/^\//, '')))
    const where = `${page}:${text.slice(0, index).split('\n').length}: ${link}`
    if (target.startsWith('..') || !existsSync(join(root, target))) return [`${where} leads nowhere`]
    if (anchor && target.endsWith('.md') && !anchors(target).has(anchor)) return [`${where} has no such heading`]
    return []
  })
}

test('every relative link leads somewhere', () => {
  expect(pages.flatMap(brokenLinks)).toEqual([])
})
