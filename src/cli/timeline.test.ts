import { expect, test } from 'vitest'
import { holderGone } from '../core/system-answers.js'
import type { KeyStory } from '../stores/postgres/queries/key-story.js'
import { timelineOf } from './timeline.js'

type Told = Partial<Omit<KeyStory, 'key'>> & { key?: Partial<KeyStory['key']> }

/** A key that was claimed at 0 and is looked at at 100, and what is told of it. */
function told({ key, ...story }: Told): string[] {
  const whole = {
    now: 100,
    steps: [],
    trail: [],
    jobs: [],
    answer: null,
    requestBytes: null,
    key: { state: 'complete', fence: 1, createdAt: 0, leaseUntil: null, reason: null, ...key },
    ...story,
  } as unknown as KeyStory
  return timelineOf(whole).happenings.map(({ at, attempt, what, step, detail }) =>
    [at ?? '?', attempt ?? '-', what, step, detail].filter((part) => part !== null).join(' '),
  )
}

const note = (at: number, fence: number, what: string, detail: string | null = null) => ({ at, fence, what, detail })
const step = (at: number, fence: number, name: string, kind: 'phase' | 'call' | 'intent' | 'cleared' | 'refused' = 'phase') => ({
  at,
  fence,
  name,
  kind,
  position: 0,
  result: null,
})

test('tells an attempt that crashed by what is missing', () => {
  const trail = [
    note(0, 1, 'claimed'),
    note(10, 2, 'taken-over'),
    note(12, 2, 'released', 'Error: no'),
    note(20, 3, 'taken-over'),
    note(21, 3, 'complete'),
  ]
  expect(told({ key: { fence: 3 }, trail })).toEqual([
    '0 1 claimed',
    '? 1 stopped without a word',
    '10 2 taken-over',
    '12 2 released Error: no',
    '20 3 taken-over',
    '21 3 complete',
  ])
})

test('tells a step once, by its record', () => {
  const trail = [
    note(0, 1, 'claimed'),
    note(1, 1, 'advanced', 'ordered'),
    note(2, 1, 'advanced', 'charged?'),
    note(3, 1, 'advanced', 'charged (not made)'),
    note(4, 1, 'advanced', 'charged?'),
    note(5, 1, 'advanced', 'charged'),
    note(6, 1, 'complete'),
  ]
  expect(told({ trail, steps: [step(1, 1, 'ordered'), step(5, 1, 'charged', 'call')] })).toEqual([
    '0 1 claimed',
    '1 1 phase ordered',
    '2 1 intent charged',
    '3 1 cleared charged',
    '4 1 intent charged',
    '5 1 call charged',
    '6 1 complete',
  ])
})

test('puts an end last, whatever the microseconds of its commit say', () => {
  const trail = [note(0, 1, 'claimed'), note(5, 1, 'complete')]
  expect(told({ trail, steps: [step(5.2, 1, 'charged', 'call')] })).toEqual(['0 1 claimed', '5.2 1 call charged', '5.2 1 complete'])
})

test('concludes what it can without a trail', () => {
  expect(told({ key: { fence: 4, state: 'pending', reason: 'Error: no' }, steps: [step(1, 1, 'ordered')] })).toEqual([
    '0 1 claimed',
    '1 1 phase ordered',
    '? 1 ended unfinished',
    '? 2 recorded nothing attempts up to 3 neither',
    '? 4 released Error: no',
  ])
})

test('tells how a key stands that is being worked on, or is no more', () => {
  expect(told({ key: { state: 'processing', leaseUntil: 150 } })).toEqual(['0 1 claimed', '? 1 works on it'])
  expect(told({ key: { state: 'processing', leaseUntil: 90 } })).toEqual(['0 1 claimed', '90 1 lease ran out'])
})

test('counts what people and the system did as no attempts', () => {
  const settled = { key: { fence: 2, state: 'failed', reason: holderGone } } as const
  expect(told(settled)).toEqual(['0 1 claimed', '? 1 ended unfinished', `? - failed ${holderGone}`])
  expect(told({ ...settled, trail: [note(0, 1, 'claimed'), note(9, 2, 'failed', holderGone)] })).toEqual([
    '0 1 claimed',
    `9 - failed ${holderGone}`,
  ])
  const trail = [note(3, 2, 'released by hand', 'released by bob'), note(5, 4, 'retried', 'retried by bob')]
  expect(told({ key: { fence: 4, state: 'pending' }, trail })).toEqual([
    '0 1 claimed',
    '3 - released by hand released by bob',
    '? 2 recorded nothing',
    '5 - retried retried by bob',
  ])
})

test('tells what people said of jobs behind what the key did, and takes it for no attempt', () => {
  const trail = [
    note(0, 1, 'claimed'),
    note(5, 1, 'job discarded', 'mail'),
    note(10, 2, 'taken-over'),
    note(11, 2, 'complete'),
    note(50, 2, 'job retried', 'mail'),
  ]
  expect(told({ key: { fence: 2 }, trail })).toEqual([
    '0 1 claimed',
    '? 1 stopped without a word',
    '5 - job discarded mail',
    '10 2 taken-over',
    '11 2 complete',
    '50 - job retried mail',
  ])
  // Without a trail the note is all there is.
  expect(told({ key: { fence: 1, state: 'complete' }, trail: [note(50, 1, 'job retried', 'mail')] })).toEqual([
    '0 1 claimed',
    '? 1 complete',
    '50 - job retried mail',
  ])
})
