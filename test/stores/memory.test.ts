import { test } from 'vitest'
import { memoryStore } from '../../src/stores/memory/index.js'
import { exerciseStore, manualClock } from '../../src/testing/index.js'

exerciseStore({
  test,
  setup() {
    const clock = manualClock()
    return { store: memoryStore({ clock }), advance: (ms) => clock.advance(ms) }
  },
})
