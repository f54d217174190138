import { createOnce, reply, type Store } from 'oncekey'
import { memoryStore } from 'oncekey/memory'
import { shown } from '../harness/report.js'
import type { Rounds } from '../harness/rounds.js'
import { type Spread, spread } from '../layout/summary.js'

const requests = 64
const perRequest = 500

/**
 * CPU µs of one `once.execute` on a store that costs nothing: it answers all calls of a turn of the event loop at its end, as a batch does. What
 * is left is the engine.
 */
export async function measureEngine({ rounds, seconds }: Rounds): Promise<Spread> {
  const once = createOnce({ store: freeStore() })
  const answer = reply(201, { ok: true })
  const client = async () => {
    for (let index = 0; index < perRequest; index += 1) {
      await once.execute({ tenant: 't', scope: 's', key: 'k', fingerprint: false, afterFailure: 'rerun' }, () => answer)
    }
  }
  const turn = async () => {
    const until = performance.now() + 1_000 * seconds
    const before = process.cpuUsage()
    let executed = 0
    do {
      await Promise.all(Array.from({ length: requests }, client))
      executed += requests * perRequest
    } while (performance.now() < until)
    const { user, system } = process.cpuUsage(before)
    return (user + system) / executed
  }
  // The first round is for warming up.
  const micros: number[] = []
  for (let round = 0; round <= rounds; round += 1) micros.push(await turn())
  await once.stop()
  return spread(micros.slice(1))
}

function freeStore(): Store<never> {
  const ids = { id: crypto.randomUUID(), incarnation: crypto.randomUUID(), fence: 1 }
  let calls: (() => void)[] = []
  const atEndOfTurn = <T>(value: T) =>
    new Promise<T>((resolve) => {
      if (calls.length === 0) setImmediate(answerAll)
      calls.push(() => resolve(value))
    })
  function answerAll() {
    const all = calls
    calls = []
    for (const answer of all) answer()
  }
  const execution = { kind: 'execute', recoveryPoint: null, takenOver: false, attempts: 0, request: null } as const
  return {
    ...memoryStore(),
    keyClaim: ({ tenant, scope, key, owner }) => atEndOfTurn({ ...execution, lease: { tenant, scope, key, owner, ...ids } }),
    keyFinish: () => atEndOfTurn('done'),
  } as Store<never>
}

export const engineLine = (micros: Spread) =>
  `The engine alone, CPU µs of one \`once.execute\` with ${requests} outstanding on a store that costs nothing: ${shown(micros)}\n`
