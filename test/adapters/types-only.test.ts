import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

// As it is published: types are gone there, and what is left is needed at run time.
const folder = fileURLToPath(new URL('../../dist/adapters', import.meta.url))
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.js'))

test.each(files)('%s needs no package at run time', (file) => {
  const source = readFileSync(`${folder}/${file}`, 'utf8')
  const imports = [...source.matchAll(/^(?:import|export)\b(?: [^'";=]*? from)? ['"]([^'"]+)['"];?$/gm)].map(([, from]) => from as string)
  expect(imports.length).toBe(source.split(/^import\b|^export (?:\*|\{[^}]*\}) from\b/m).length - 1)
  expect(imports.filter((from) => !from.startsWith('.') && !from.startsWith('node:'))).toEqual([])
})
