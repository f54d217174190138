// The pages of the command line are held to the program: its own help, its exit codes, its checks.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { exitCodes } from '../../src/cli/exit-codes.js'
import { commandLine } from '../cli/command-line.js'

const read = (path: string) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8')
const page = read('docs/reference/cli.md')
const oncekey = commandLine(undefined)
const commands = [...((await oncekey('--help')).out.split('Commands:')[1]?.matchAll(/^ {2}(\w+) /gm) ?? [])]
  .map(([, name]) => name as string)
  .filter((name) => name !== 'help')

/** What is shown of a run, without the line that was typed. */
function recorded(line: string): string | undefined {
  const blocks = [...page.matchAll(/<!-- recorded: (.*?) -->\n```console\n\$ (.*)\n([\s\S]*?)```/g)]
  const [, , typed, output] = blocks.find(([, mark]) => mark === line) ?? []
  expect(typed).toBe(line)
  return output
}

describe('cli.md', () => {
  test('has a section for every command, in the order of the help', () => {
    expect(commands).toHaveLength(12)
    expect([...page.matchAll(/^## `oncekey (\w+)`$/gm)].map(([, name]) => name)).toEqual(commands)
  })

  test('shows the help as the program prints it', async () => {
    expect(recorded('oncekey --help')).toBe((await oncekey('--help')).out)
  })

  test.each(commands)('shows the help of %s as the program prints it', async (command) => {
    expect(recorded(`oncekey help ${command}`)).toBe((await oncekey('help', command)).out)
  })

  test.each(['list', 'show', 'retry', 'discard'])('shows the help of jobs %s as the program prints it', async (command) => {
    expect(recorded(`oncekey jobs ${command} --help`)).toBe((await oncekey('jobs', command, '--help')).out)
  })

  test('lists exactly the exit codes', () => {
    const rows = [...page.matchAll(/^\| `(\d)` \| `(\w+)` \|/gm)].map(([, code, name]) => [name, Number(code)])
    expect(Object.fromEntries(rows)).toEqual(exitCodes)
  })
})

test('recordings fit a page: no machine of ours is in them', () => {
  for (const path of ['docs/reference/cli.md', 'docs/guide/operating.md', 'docs/guide/runbook.md']) {
    expect(read(path)).not.toMatch(/127\.0\.0\.1|\/work\/|\/root|\/home/)
    expect(read(path)).not.toMatch(/```console\n```/)
  }
})
