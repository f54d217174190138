import fc from 'fast-check'
import { expect, test } from 'vitest'
import { DatabaseClock } from './database-clock.js'

/** A world with three clocks: the database's, which counts, and the two of a process, which cannot be trusted. */
function setup() {
  const world = { database: 1_000_000, monotonic: 5, wall: 77_777 }
  const clock = new DatabaseClock({ now: () => world.wall, monotonic: () => world.monotonic, schedule: () => () => {} })
  const pass = (ms: number, { monotonic = ms, wall = ms } = {}) => {
    world.database += ms
    world.monotonic += monotonic
    world.wall += wall
  }
  /** Asks the database what time it is, over a slow network. */
  const look = (thereMs = 0, backMs = 0) => {
    const asked = clock.moment()
    pass(thereMs)
    const shown = world.database
    pass(backMs)
    clock.saw(shown, asked)
  }
  const isBetween = () => {
    const [earliest, latest] = [clock.earliest(), clock.latest()]
    if (earliest === undefined || latest === undefined) return earliest === latest
    return earliest <= world.database && world.database <= latest
  }
  return { world, clock, pass, look, isBetween }
}

test('knows nothing before the first look, and nothing of a look that is too old', () => {
  const { clock, pass, look } = setup()
  expect([clock.earliest(), clock.latest(), clock.isStale]).toEqual([undefined, undefined, true])
  look()
  expect([clock.latest(), clock.isStale]).toEqual([1_000_000, false])
  pass(31_000)
  expect([typeof clock.latest(), clock.isStale]).toEqual(['number', true])
  pass(300_000)
  expect([clock.earliest(), clock.latest()]).toEqual([undefined, undefined])
})

test('allows for the time that the look was on its way', () => {
  const { clock, look, world } = setup()
  look(40, 300)
  expect(world.database).toBe(1_000_340)
  // Shown 40 ms after it was asked: for all we know it was the very moment, or only just before the answer was here.
  expect([clock.earliest(), clock.latest()]).toEqual([1_000_040, 1_000_381])
})

test('stays true while the machine sleeps, and when somebody sets its clock', () => {
  const { clock, look, pass, isBetween } = setup()
  for (const step of [{ monotonic: 0 }, { wall: -3_600_000 }, { wall: 3_600_000 }, { monotonic: 0, wall: 10_000 }]) {
    look()
    pass(10_000, step)
    expect(isBetween()).toBe(true)
  }
  look()
  pass(10_000, { monotonic: 0 })
  expect(clock.latest()).toBeGreaterThanOrEqual(1_050_000)
})

test('the database shows a time between the bounds, whatever one of the two clocks does', () => {
  const act = fc.oneof(
    fc.record({ look: fc.constant(true), there: fc.nat(5_000), back: fc.nat(5_000) }),
    fc.record({
      pass: fc.nat(100_000),
      /** Which of them goes wrong, and by how much. */
      wrong: fc.constantFrom('monotonic', 'wall', 'none'),
      by: fc.integer({ min: -200_000, max: 200_000 }),
      // Quartz: half a thousandth.
      drift: fc.double({ min: -0.0005, max: 0.0005, noNaN: true }),
    }),
  )
  fc.assert(
    fc.property(fc.array(act, { maxLength: 30 }), (acts) => {
      const { pass, look, isBetween } = setup()
      // Of two clocks one may be wrong at a time: the other is what a look since is measured by.
      let trusted = true
      for (const each of acts) {
        if ('look' in each) {
          look(each.there, each.back)
          trusted = true
        } else if (trusted) {
          const right = each.pass * (1 + each.drift)
          const off = Math.max(0, right + each.by)
          pass(each.pass, {
            monotonic: each.wrong === 'monotonic' ? Math.min(off, right) : right,
            wall: each.wrong === 'wall' ? right + each.by : right,
          })
          trusted = each.wrong === 'none'
        } else pass(each.pass)
        if (!isBetween()) return false
      }
      return true
    }),
    { numRuns: 500 },
  )
})
