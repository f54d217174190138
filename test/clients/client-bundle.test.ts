// What a page has to load for the client.
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { type BuildOptions, build } from 'esbuild'
import { expect, test } from 'vitest'

const source = (path: string) => fileURLToPath(new URL(`../../src/${path}`, import.meta.url))

async function bundle(entry: string, platform: NonNullable<BuildOptions['platform']>) {
  const options = { bundle: true, minify: true, format: 'esm', write: false, metafile: true, logLevel: 'silent' } as const
  const { outputFiles, metafile } = await build({ ...options, entryPoints: [source(entry)], platform })
  const [file] = outputFiles
  const imports = Object.values(metafile.outputs).flatMap(({ imports }) => imports.map(({ path }) => path))
  const inputs = Object.keys(metafile.inputs).map((path) => path.slice(path.indexOf('src/')))
  return { bytes: gzipSync(file?.contents as Uint8Array, { level: 9 }).byteLength, text: file?.text as string, imports, inputs }
}

test('the client is at most 5 kB, gzipped', async () => {
  const { bytes } = await bundle('client/index.ts', 'browser')
  expect(bytes).toBeLessThanOrEqual(5_000)
})

test.each(['client/index.ts', 'client/browser.ts', 'client/axios.ts'])(
  '%s is made of the client only, and runs in browsers',
  async (entry) => {
    const { text, imports, inputs } = await bundle(entry, 'browser')
    expect(inputs.filter((path) => !path.startsWith('src/client/'))).toEqual([])
    expect([imports, text.includes('node:'), text.includes('require(')]).toEqual([[], false, false])
  },
)

test('a browser’s bundle cannot take in the storage of Node by mistake', async () => {
  await expect(bundle('client/node.ts', 'browser')).rejects.toThrow('node:fs/promises')
  const { imports, inputs } = await bundle('client/node.ts', 'node')
  expect(imports.sort()).toEqual(['node:fs/promises', 'node:path'])
  expect(inputs.filter((path) => !path.startsWith('src/client/'))).toEqual([])
})
