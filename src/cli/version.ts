import { readFileSync } from 'node:fs'

/** Of this package, two folders up, built or not. */
export const version = (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }).version
