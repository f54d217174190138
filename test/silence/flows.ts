// The work of the campaign's services: one flow for each way in which a request can be protected.
import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { type Answer, bodyOf, isOncekeyError, type Once, type Outcome, type Reply, reply } from '../../src/index.js'

export const flows = ['rerun', 'store', 'park', 'operation', 'local', 'consumer'] as const
export type Flow = (typeof flows)[number]

export interface Asked {
  readonly id: string
  /** How large the answer is, the staged job, and the request. */
  readonly answerBytes?: number
  readonly jobBytes?: number
  readonly requestPad?: string
  /** How long the work takes. */
  readonly workMs?: number
  readonly waitMs?: number
  /** Nobody outside is told that it runs: where its time is measured. */
  readonly isUnnoted?: boolean
}

/** What became of a request, as its client was told. */
export interface Told {
  readonly flow: Flow
  readonly key: string
  /** `running`: nothing yet. */
  readonly kind: Outcome<Answer>['kind'] | 'invalid' | 'error' | 'running'
  /** Of an error. */
  readonly code: string | null
  /** What makes this answer another one than any other run's. */
  readonly nonce: string | null
  readonly stored: boolean
  /** The work began in this request, whatever came of it: if its commit was lost on the way, it may be told another one's answer. */
  readonly hasBegun?: boolean
  readonly ms: number
}

/** The request that the work belongs to. There is none if a worker carries it out. */
const current = new AsyncLocalStorage<{ hasBegun: boolean }>()

function begins(): void {
  const asking = current.getStore()
  if (asking) asking.hasBegun = true
}

export const tenant = 'silence'

/** One row for each effect, and nothing that keeps doubles out: they are counted afterwards. */
export const effectsTable = 'create table effects (key text not null, what text not null)'

type Made = Reply<{ nonce: string; pad: string }>

const made = (nonce: string, { answerBytes = 0 }: Asked): Made => reply(201, { nonce, pad: 'x'.repeat(answerBytes) })
const pause = (ms = 0) => (ms === 0 ? undefined : new Promise((resolve) => setTimeout(resolve, ms)))

interface Outsides {
  /** A mutation whose provider honours the derived key. */
  charge(derivedKey: string, id: string, signal: AbortSignal): Promise<void>
  /** Notes that the work of a key without phases ran. */
  ran(id: string): Promise<void>
}

/** Defines the flows, and returns what carries one out and says what its client was told. */
export function defineFlows(once: Once<pg.PoolClient>, { charge, ran }: Outsides) {
  const operation = once.operation('operation', {}, async (run, input) => {
    const asked = input as Asked
    begins()
    const nonce = await run.phase('ordered', async (tx) => {
      await tx.query(`insert into effects (key, what) values ($1, 'phase')`, [asked.id])
      return randomUUID()
    })
    await pause(asked.workMs)
    await run.call('charged', ({ key, signal }) => charge(key, asked.id, signal))
    return run.finish(async (tx) => {
      await tx.query(`insert into effects (key, what) values ($1, 'finish')`, [asked.id])
      await run.stage(tx, 'mail', { key: asked.id, pad: 'x'.repeat(asked.jobBytes ?? 0) })
      return made(nonce, asked)
    })
  })
  const local = once.local('local', {}, async (tx, input) => {
    const asked = input as Asked
    begins()
    await tx.query(`insert into effects (key, what) values ($1, 'local')`, [asked.id])
    await pause(asked.workMs)
    return made(randomUUID(), asked)
  })
  const consumer = once.consumer('consumer', { tenant }, async (tx, message: { id: string; body: Asked }) => {
    begins()
    await tx.query(`insert into effects (key, what) values ($1, 'consumer')`, [message.id])
    await pause(message.body.workMs)
    return made(randomUUID(), message.body)
  })

  function send(flow: Flow, asked: Asked): Promise<Outcome<Made> | { kind: 'invalid' }> {
    const { id, waitMs } = asked
    // A retry is the same request, although it may want less.
    const fingerprint = { value: id }
    const wait = waitMs === undefined ? {} : { wait: waitMs }
    if (flow === 'operation') return operation.run({ tenant, key: id, input: asked, fingerprint, ...wait })
    if (flow === 'local') return local.run({ tenant, key: id, input: asked, fingerprint })
    if (flow === 'consumer') return consumer.handle({ id, body: asked })
    return once.execute({ tenant, scope: flow, key: id, fingerprint, afterFailure: flow, ...wait }, async () => {
      begins()
      if (!asked.isUnnoted) await ran(id)
      await pause(asked.workMs)
      return made(randomUUID(), asked)
    })
  }

  /** Never rejects. */
  return async function request(flow: Flow, asked: Asked): Promise<Told> {
    const began = performance.now()
    const asking = { hasBegun: false }
    const told = (rest: Partial<Told> & Pick<Told, 'kind'>): Told => {
      return { flow, key: asked.id, code: null, nonce: null, stored: false, ...asking, ms: performance.now() - began, ...rest }
    }
    try {
      const outcome = await current.run(asking, () => send(flow, asked))
      const { kind } = outcome
      if (kind === 'executed') return told({ kind, nonce: bodyOf(outcome.answer).nonce, stored: outcome.stored })
      if (kind === 'replayed')
        return told({ kind, nonce: outcome.state === 'complete' ? bodyOf(outcome.answer).nonce : 'failed', stored: true })
      return told({ kind })
    } catch (error) {
      return told({ kind: 'error', code: isOncekeyError(error) ? error.code : String(error) })
    }
  }
}
