import { readFileSync } from 'node:fs'

/** Of the package that this file stands in, two folders up from here, built or not. */
export const version = (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }).version
