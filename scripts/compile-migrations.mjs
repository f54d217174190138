// Turns migrations/*.sql into a module, so that nothing is read from disk at run time and bundlers need no loader.
// With --check it changes nothing and fails when the module is out of date.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import process from 'node:process'

const folder = new URL('../src/stores/postgres/migrations/', import.meta.url)
const target = new URL('compiled.ts', folder)

const names = readdirSync(folder)
  .filter((name) => name.endsWith('.sql'))
  .sort()
const entries = names.map((name, index) => {
  const [, number, title] = /^(\d{4})_([a-z_]+)\.sql$/.exec(name) ?? []
  if (Number(number) !== index + 1) throw new Error(`${name}: migrations are numbered 0001, 0002, … without a gap`)
  const sql = readFileSync(new URL(name, folder), 'utf8')
  if (sql.includes('`') || sql.includes('\\') || sql.includes('$' + '{'))
    throw new Error(`${name}: no backticks, backslashes or template holes`)
  // A process that does not know a breaking migration must not touch the tables any more.
  const breaking = /^-- breaking$/m.test(sql)
  // How it runs on large tables: see migration.ts.
  const mode = /^-- (statements|batches)$/m.exec(sql)?.[1]
  const modeLine = mode ? `    mode: '${mode}',\n` : ''
  return `  {\n    version: ${index + 1},\n    name: '${title}',\n    breaking: ${breaking},\n${modeLine}    sql: \`${sql}\`,\n  },\n`
})
const module = `// Made from the .sql files beside it by scripts/compile-migrations.mjs. Do not edit.\n
import type { Migration } from './migration.js'\n
export const migrations: readonly Migration[] = [\n${entries.join('')}]\n`

if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== module) {
    console.error('src/stores/postgres/migrations/compiled.ts is out of date: run `npm run build` and commit it')
    process.exit(1)
  }
} else {
  writeFileSync(target, module)
}
