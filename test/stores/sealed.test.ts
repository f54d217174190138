// Encryption keeps the contract of the store that it is wrapped around.

import { randomBytes } from 'node:crypto'
import { describe, test } from 'vitest'
import { sealedStore } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { exerciseStore, manualClock } from '../../src/testing/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { emptyHarness } from '../support/postgres/harness.js'

const encryption = { keys: [{ id: 'k1', key: randomBytes(32) }] }
const database = useDatabase()

describe('around the memory store', () => {
  exerciseStore({
    test,
    setup() {
      const clock = manualClock()
      return { store: sealedStore(memoryStore({ clock }), encryption), advance: (ms) => clock.advance(ms) }
    },
  })
})

describe('around the Postgres store', () => {
  exerciseStore({
    test,
    async setup() {
      const harness = await emptyHarness(connectionTo(database.pool))
      return { ...harness, store: sealedStore(harness.store, encryption) }
    },
  })
})
