// The package as npm gets it: what is in it, whether it works where it is installed, and whether packing builds it first.
import { cp, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { read, root } from '../docs/pages.js'
import { newFolder, pack, run } from './packed.js'

const manifest = JSON.parse(read('package.json')) as {
  version: string
  exports: Record<string, string | { types: string; default: string }>
}
const entries = Object.entries(manifest.exports).flatMap(([path, target]) => (typeof target === 'string' ? [] : [{ path, ...target }]))

test('the installed package has every entry point with its types, and a command that runs', { timeout: 120_000 }, async () => {
  const folder = await newFolder()
  // As it was built before the tests: a new build would take the files away from tests that run now.
  const { tarball } = await pack(root, folder, '--ignore-scripts')
  await writeFile(join(folder, 'package.json'), '{ "type": "module", "private": true }')
  const quick = ['--prefer-offline', '--no-audit', '--no-fund', '--no-package-lock']
  await run('npm', ['install', ...quick, tarball], { cwd: folder })

  const names = entries.map(({ path }) => `oncekey${path.slice(1)}`)
  const importAll = `
    const failed = {}
    for (const name of ${JSON.stringify(names)}) await import(name).catch((error) => { failed[name] = error.message })
    console.log(JSON.stringify(failed))`
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', importAll], { cwd: folder })
  // None of them needs a package of the user's to be there.
  expect(JSON.parse(stdout)).toEqual({})

  const installed = await readdir(join(folder, 'node_modules/oncekey'), { recursive: true })
  for (const { types } of entries) expect(installed).toContain(types.slice('./'.length))
  const version = await run('npx', ['--no-install', 'oncekey', '--version'], { cwd: folder })
  expect(version.stdout.trim()).toBe(manifest.version)
})

test('packing builds first, and the command is executable', { timeout: 120_000 }, async () => {
  const folder = await newFolder()
  const copied = ['package.json', 'tsconfig.json', 'tsconfig.build.json', 'README.md', 'scripts', 'src']
  for (const name of copied) await cp(join(root, name), join(folder, name), { recursive: true })
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  const { files } = await pack(folder, folder)
  const paths = files.map(({ path }) => path)
  for (const entry of entries) expect(paths).toEqual(expect.arrayContaining([entry.types.slice(2), entry.default.slice(2)]))
  expect(files.find(({ path }) => path === 'dist/cli/main.js')?.mode).toBe(0o755)
})

test('no link of a packed page leads to a file that is not packed', async () => {
  const { files } = await pack(root, await newFolder(), '--ignore-scripts', '--dry-run')
  const packed = new Set(files.map(({ path }) => path))
  const folders = new Set([...packed].flatMap((path) => path.split('/').map((_, depth, parts) => parts.slice(0, depth).join('/'))))
  const pages = [...packed].filter((path) => path.endsWith('.md') || path === 'llms.txt')
  expect(pages).toContain('README.md')
  const lost = pages.flatMap((page) => linksOf(page).filter(({ target }) => !packed.has(target) && !folders.has(target)))
  expect(lost).toEqual([])
})

test('the package has nothing that a run of the examples leaves behind', async () => {
  const { files } = await pack(root, await newFolder(), '--ignore-scripts', '--dry-run')
  expect(files.filter(({ path }) => /(^|\/)(\.data|\.next|node_modules)\//.test(path))).toEqual([])
})

/** The links of a page into the package, as paths from its root. */
function linksOf(page: string): { page: string; target: string }[] {
  const links = [...read(page).matchAll(/\]\(<?([^)\s>]+)|^\[[^\]]+\]: *(\S+)| (?:href|src|srcset)="([^"]+)"/gm)]
  return links.flatMap(([, inline, reference, html]) => {
    const link = inline ?? reference ?? html ?? ''
    if (/^([a-z][a-z\d+.-]*:|\/\/|#)/i.test(link)) return []
    const { pathname } = new URL(link, `file:///${page}`)
    return [{ page, target: decodeURIComponent(pathname).replace(/^\/|\/$/g, '') }]
  })
}
