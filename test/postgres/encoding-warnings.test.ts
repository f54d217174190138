// In its own process: in another one, a file before may have caused the warning.
import { expect, test, vi } from 'vitest'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim } from '../../src/testing/store-cases/store-case.js'
import { useEncoding } from '../support/postgres/encoding.js'

const encodings = ['LATIN1', 'WIN1251', 'SQL_ASCII']
const pools = encodings.map((encoding) => ({ encoding, pool: useEncoding(encoding) }))

test.each(pools)('a process is warned once of what may fail in a database with $encoding', async ({ encoding, pool }) => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  for (const store of [postgresStore(fromPg(pool)), postgresStore(fromPg(pool))]) await store.keyClaim(aClaim())
  expect(warn).toHaveBeenCalledExactlyOnceWith(expect.stringContaining(encoding), { code: 'ONCEKEY_ENCODING' })
})
