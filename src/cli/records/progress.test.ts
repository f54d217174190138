import { describe, expect, test } from 'vitest'
import type { World } from '../world.js'
import { progressLine, progressOn, type Standing } from './progress.js'

const counts = { local: 20_000, foreign: 19_999, differs: 0, onlyLocal: 1, onlyForeign: 0 }
const line = (standing: Partial<Standing>, width = 79) =>
  progressLine({ doneBytes: 0, totalBytes: 200_000_000, elapsedMs: 10_000, summary: counts, ...standing }, width)

describe('the line', () => {
  test.each([
    [{ doneBytes: 0 }, '[--------------------]   0 %, 1 difference'],
    [{ doneBytes: 90_000_000 }, '[#########-----------]  45 %  9.0 MB/s, 12.2 s left, 1 difference'],
    [{ doneBytes: 1_000_000 }, '[--------------------]   0 %  100 kB/s, 33m 10s left, 1 difference'],
    [{ doneBytes: 199_999_999 }, '[###################-]  99 %  20.0 MB/s, 0 ms left, 1 difference'],
    [{ doneBytes: 200_000_000 }, '[####################] 100 %  20.0 MB/s, 0 ms left, 1 difference'],
  ])('is a bar with percentage, rate and time left where the size is known: %j', (standing, shown) => {
    expect(line(standing)).toBe(shown)
  })

  test('never goes over, though a file grew, and takes nothing for all of nothing', () => {
    expect(line({ doneBytes: 300_000_000 })).toBe('[####################] 100 %  30.0 MB/s, 0 ms left, 1 difference')
    expect(line({ totalBytes: 0 })).toBe('[####################] 100 %, 1 difference')
  })

  test('has no rate before time has passed, nor when the clock was set back', () => {
    expect(line({ doneBytes: 100_000_000, elapsedMs: 0 })).toBe('[##########----------]  50 %, 1 difference')
    expect(line({ doneBytes: 100_000_000, elapsedMs: -5 })).toBe('[##########----------]  50 %, 1 difference')
  })

  test('is a counter where the size is not known', () => {
    expect(line({ totalBytes: undefined })).toBe('20,000 here, 19,999 there, 1 difference')
  })

  test('fits the terminal', () => {
    expect(line({ doneBytes: 90_000_000 }, 29)).toBe('[#########-----------]  45 %…')
    expect(line({ totalBytes: undefined }, 12)).toBe('20,000 here…')
  })
})

describe('on a terminal', () => {
  function setup({ progress = true, columns = 60 } = {}) {
    const told: string[] = []
    const world = { time: 1_000, progress, columns, tell: (text: string) => void told.push(text), now: () => world.time }
    return { told, world, shown: progressOn(world as unknown as World, () => ({ ...counts, equal: 0, unsettled: 0, complete: false })) }
  }

  test('it is drawn four times a second at most, of all parts together', () => {
    const { told, world, shown } = setup()
    const [one, other] = [shown.part(300), shown.part(100)]
    for (let step = 0; step < 100; step += 1) {
      world.time += 10
      one.step(1)
    }
    expect(told).toHaveLength(4)
    other.end()
    world.time += 250
    one.step(100)
    expect(told.at(-1)).toBe('\r\x1b[K[###############-----]  75 %  240 B/s, 417 ms left, 1 diff…')
  })

  test('one part of unknown size makes it a counter', () => {
    const { told, world, shown } = setup()
    const part = shown.part(300)
    shown.part(undefined)
    world.time += 250
    part.step(1)
    expect(told).toEqual(['\r\x1b[K20,000 here, 19,999 there, 1 difference'])
  })

  test('it is drawn where the terminal does not know its width, too', () => {
    const { told, world, shown } = setup({ columns: 0 })
    world.time += 250
    shown.part(10).step(1)
    expect(told).toEqual(['\r\x1b[K[##------------------]  10 %  4 B/s, 2.3 s left, 1 difference'])
  })

  test('it is taken away once, and only if it is there', () => {
    const { told, world, shown } = setup()
    shown.clear()
    expect(told).toEqual([])
    world.time += 250
    shown.part(10).step(1)
    shown.clear()
    shown.clear()
    expect(told.slice(1)).toEqual(['\r\x1b[K'])
  })

  test('nothing is drawn where there is none', () => {
    const { told, world, shown } = setup({ progress: false })
    world.time += 250
    shown.part(10).step(1)
    shown.clear()
    expect(told).toEqual([])
  })
})
