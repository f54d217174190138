import { read, section } from '../docs/pages.js'

const page = 'docs/guide/quick-starts.md'

export interface QuickStart {
  readonly name: string
  /** The lines that make the project. */
  readonly install: readonly string[]
  readonly files: readonly { readonly path: string; readonly text: string }[]
  /** What starts it. */
  readonly run: string
  readonly exchanges: readonly Exchange[]
}

/** A line of the shell, and what the page says comes back. */
export interface Exchange {
  readonly line: string
  readonly status: string
  readonly headers: readonly string[]
  readonly body: RegExp
}

/** The sections of the page that end in what comes back, as they stand there. */
export function quickStarts(): QuickStart[] {
  const names = [...read(page).matchAll(/^## (.*)$/gm)].map(([, name]) => name as string)
  return names.filter((name) => section(page, name).includes('```console')).map(quickStart)
}

function quickStart(name: string): QuickStart {
  const blocks = [...section(page, name).matchAll(/(?:^`([^`\n]+)`:\n\n)?^```(\w+)\n([\s\S]*?)^```$/gm)].map(
    ([, path, language, text]) => ({ path, language, text: text as string }),
  )
  const files = blocks.flatMap(({ path, text }) => (path ? [{ path, text }] : []))
  const [install, run] = blocks.filter(({ language }) => language === 'sh').map(({ text }) => text.trim())
  const [transcript] = blocks.filter(({ language }) => language === 'console')
  if (files.length === 0 || !install || !run || !transcript) throw new Error(`${page}: the section ${name} is not complete`)
  return { name, install: install.split('\n'), files, run, exchanges: transcript.text.split(/^\$ /m).slice(1).map(exchange) }
}

function exchange(text: string): Exchange {
  const [line = '', status = '', ...rest] = text.trim().split('\n')
  const [headers = '', body = ''] = `\n${rest.join('\n')}`.split('\n\n')
  const pattern = body.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&').replaceAll('…', '.*')
  return { line, status, headers: headers.split('\n').filter(Boolean), body: new RegExp(`^${pattern}$`) }
}

/** What the page says to change for a Postgres server. */
export function onPostgres(text: string): string {
  const [, diff = ''] = /```diff\n([\s\S]*?)```/.exec(section(page, 'Your own Postgres')) ?? []
  const pairs = [...diff.matchAll(/^-(.*)\n\+(.*)$/gm)].map(([, from, to]) => [from as string, to as string] as const)
  if (pairs.length === 0) throw new Error(`${page} does not say how to use a Postgres server`)
  return pairs.reduce((changed, [from, to]) => changed.replace(from, () => to), text)
}
