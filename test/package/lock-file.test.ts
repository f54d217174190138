import { expect, test } from 'vitest'
import { read } from '../docs/pages.js'

interface LockedPackage {
  readonly version?: string
  readonly resolved?: string
  readonly optionalDependencies?: Readonly<Record<string, string>>
}
const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, LockedPackage> }

/** Where the packages of a folder find a package: in the folder, else in each one above it. */
function locked(from: string, name: string): LockedPackage | undefined {
  const own = packages[`${from === '' ? '' : `${from}/`}node_modules/${name}`]
  return own || from === '' ? own : locked(from.slice(0, Math.max(0, from.lastIndexOf('/node_modules/'))), name)
}

// npm 11 refuses `npm ci` otherwise.
test('the lock file lists the optional packages of every platform', () => {
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter((name) => locked(path, name)?.version === undefined),
  )
  expect(missing).toEqual([])
})

test('the lock file names no registry: each machine uses its own', () => {
  expect(Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined)).toEqual([])
})
