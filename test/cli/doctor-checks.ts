import { commandLine } from './command-line.js'

export interface Check {
  name: string
  level: string
  says: string
  todo: string | null
}

/** Everything that a doctor of this database says about one thing. */
export async function about(url: string, name: string, ...words: string[]): Promise<Check[]> {
  const { data } = await commandLine(url)('doctor', '--json', ...words)
  return data.checks.filter((check: Check) => check.name === name)
}
