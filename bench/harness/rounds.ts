import type { Contender, Group, Sample, Turn } from './contender.js'

export interface Rounds {
  readonly rounds: number
  readonly seconds: number
}

interface Match extends Turn {
  readonly title: string
  readonly rounds: number
  readonly contenders: readonly Contender[]
  /** Default: the first contender. */
  readonly reference?: string | undefined
  /** There is nothing to warm up, or no number to be had. */
  readonly warm?: boolean
  /** Brings the servers into the same state before each round. */
  prepare?(): Promise<void>
}

/**
 * Every contender has one turn in each round, and ratios are of turns of the same round: what else the machine is busy with then slows both.
 * The order rotates, so that nobody always follows the same one. A short round before is for warming up, and is not counted.
 */
export async function interleave(match: Match): Promise<Group> {
  const { title, outstanding, seconds, rounds, contenders, prepare, warm = false } = match
  const samples: Record<string, Sample[]> = Object.fromEntries(contenders.map(({ name }) => [name, []]))
  for (let round = warm ? 1 : 0; round <= rounds; round += 1) {
    await prepare?.()
    const isWarmUp = round === 0
    const shift = round % contenders.length
    for (const contender of [...contenders.slice(shift), ...contenders.slice(0, shift)]) {
      const sample = await contender.run({ outstanding, seconds: isWarmUp ? Math.min(1, seconds) : seconds })
      if (!(sample.operations > 0)) throw new Error(`${title}: "${contender.name}" did no work in ${seconds} s`)
      if (!isWarmUp) samples[contender.name]?.push(sample)
    }
    if (!isWarmUp) console.error(`  ${title}: round ${round} of ${rounds}`)
  }
  return { title, outstanding, reference: match.reference ?? (contenders[0] as Contender).name, samples }
}

/** Code is compiled while it runs: when requests come one by one, many have passed. */
export function mostFirst(outstanding: readonly number[]): number[] {
  return outstanding.toSorted((left, right) => right - left)
}
