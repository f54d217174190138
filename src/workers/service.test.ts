import { describe, expect, test, vi } from 'vitest'
import { manualClock } from '../testing/manual-clock.js'
import { type Counts, createService, type ServiceParts } from './service.js'

/** A service whose goes end when the test says so. */
function setup(changes: Partial<ServiceParts> = {}) {
  const clock = manualClock()
  const runs: { stopping: AbortSignal; end(counts: Counts): void; fail(error: Error): void }[] = []
  const told: unknown[] = []
  const service = createService({
    name: 'test',
    clock,
    random: { uuid: () => 'id', fraction: () => 1 },
    intervalMs: 1_000,
    run: (stopping) => new Promise((end, fail) => void runs.push({ stopping, end, fail })),
    onRun: (counts, durationMs) => told.push({ counts, durationMs }),
    onError: (error) => told.push(error),
    ...changes,
  })
  const settled = () => new Promise(setImmediate)
  return { service, clock, runs, told, settled }
}

describe('start', () => {
  test('runs at once, then again when it has rested', async () => {
    const { service, clock, runs, settled } = setup()
    service.start()
    expect(runs).toHaveLength(1)
    clock.advance(5_000)
    expect(runs).toHaveLength(1)
    runs[0]?.end({})
    await settled()
    clock.advance(999)
    await settled()
    expect(runs).toHaveLength(1)
    clock.advance(1)
    await settled()
    expect(runs).toHaveLength(2)
  })

  test('rests half as long at the least, so that processes do not march in step', async () => {
    const { service, clock, runs, settled } = setup({ random: { uuid: () => 'id', fraction: () => 0 } })
    service.start()
    runs[0]?.end({})
    await settled()
    clock.advance(500)
    await settled()
    expect(runs).toHaveLength(2)
  })

  test('twice is once', () => {
    const { service, runs } = setup()
    service.start()
    service.start()
    expect(runs).toHaveLength(1)
  })

  test('goes on after an error, which is told', async () => {
    const { service, clock, runs, told, settled } = setup()
    service.start()
    const error = new Error('the database is away')
    runs[0]?.fail(error)
    await settled()
    expect(told).toEqual([error])
    clock.advance(1_000)
    await settled()
    expect(runs).toHaveLength(2)
  })

  test('comes back soon after a failure, later each time, and as planned once it worked', async () => {
    const { service, clock, runs, settled } = setup({ intervalMs: 30_000 })
    service.start()
    for (const delayMs of [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]) {
      const before = runs.length
      runs.at(-1)?.fail(new Error('the database is away'))
      await settled()
      clock.advance(delayMs - 1)
      await settled()
      expect(runs).toHaveLength(before)
      clock.advance(1)
      await settled()
      expect(runs).toHaveLength(before + 1)
    }
    runs.at(-1)?.end({})
    await settled()
    clock.advance(29_999)
    await settled()
    expect(runs).toHaveLength(7)
    clock.advance(1)
    await settled()
    expect(runs).toHaveLength(8)
  })

  test('comes back no later than planned after a failure', async () => {
    const { service, clock, runs, settled } = setup({ intervalMs: 300 })
    service.start()
    runs[0]?.fail(new Error('the database is away'))
    await settled()
    clock.advance(300)
    await settled()
    expect(runs).toHaveLength(2)
  })

  test('leaves no listener behind, however long it runs', async () => {
    const warn = vi.spyOn(process, 'emitWarning')
    const { service, clock, runs, settled } = setup()
    service.start()
    for (let turn = 0; turn < 30; turn += 1) {
      runs.at(-1)?.end({})
      await settled()
      clock.advance(1_000)
      await settled()
    }
    expect(runs).toHaveLength(31)
    expect(warn).not.toHaveBeenCalled()
    warn.mockRestore()
  })
})

describe('stop', () => {
  test('waits for what is under way, which is told to end early', async () => {
    const { service, runs, settled } = setup()
    service.start()
    let stopped = false
    const stopping = service.stop().then(() => {
      stopped = true
    })
    await settled()
    expect(stopped).toBe(false)
    expect(runs[0]?.stopping.aborted).toBe(true)
    runs[0]?.end({})
    await stopping
    expect(runs).toHaveLength(1)
  })

  test('ends a rest at once, and lets it be started again', async () => {
    const { service, runs, settled } = setup()
    service.start()
    runs[0]?.end({})
    await settled()
    await service.stop()
    service.start()
    expect(runs).toHaveLength(2)
    expect(runs[1]?.stopping.aborted).toBe(false)
  })

  test('does not keep it from being started again at once', async () => {
    const { service, runs, settled } = setup()
    service.start()
    const both = [service.stop(), service.stop()]
    service.start()
    expect(runs).toHaveLength(1)
    runs[0]?.end({})
    await Promise.all(both)
    expect(runs).toHaveLength(2)
    expect(runs[1]?.stopping.aborted).toBe(false)
    const stopped = service.stop()
    runs[1]?.end({})
    await stopped
    await settled()
    expect(runs).toHaveLength(2)
  })

  test('leaves a go behind that does not end, after 20 seconds, and can be started again', async () => {
    const { service, clock, runs, told, settled } = setup()
    service.start()
    let stopped = false
    const stopping = service.stop().then(() => {
      stopped = true
    })
    clock.advance(19_999)
    await settled()
    expect(stopped).toBe(false)
    clock.advance(1)
    await stopping
    service.start()
    expect(runs).toHaveLength(2)
    runs[0]?.end({ late: 1 })
    runs[1]?.end({ late: 0 })
    await settled()
    clock.advance(1_000)
    await settled()
    expect(runs).toHaveLength(3)
    expect(told).toHaveLength(2)
  })

  test('of what never started is nothing', async () => {
    await setup().service.stop()
  })
})

describe('runOnce', () => {
  test('does one go, and tells its counts and how long it took', async () => {
    const { service, clock, runs, told } = setup()
    const run = service.runOnce()
    clock.advance(30)
    runs[0]?.end({ swept: 3 })
    expect(await run).toEqual({ swept: 3 })
    expect(told).toEqual([{ counts: { swept: 3 }, durationMs: 30 }])
  })

  test('throws what goes wrong', async () => {
    const { service, runs } = setup()
    const run = service.runOnce()
    runs[0]?.fail(new Error('no'))
    await expect(run).rejects.toThrow('no')
  })
})
