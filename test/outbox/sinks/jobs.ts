import { randomUUID } from 'node:crypto'
import type { Delivery, Job, Sink } from '../../../src/outbox/sink.js'

export function aJob(parts: Partial<Job> = {}): Job {
  return { id: randomUUID(), tenant: 'acme', name: 'send_receipt', payload: { order: 1 }, group: null, attempt: 1, stagedAt: 0, ...parts }
}

export function someJobs(count: number, parts: Partial<Job> = {}): Job[] {
  return Array.from({ length: count }, (_, order) => aJob({ payload: { order }, ...parts }))
}

/** What the queues get of it by default. */
export function messageFor({ attempt, ...message }: Job): Omit<Job, 'attempt'> {
  return message
}

export function deliver(sink: Sink, jobs: readonly Job[], signal = new AbortController().signal): Promise<readonly Delivery[]> {
  return sink.deliver(jobs, { signal })
}

/** The ids of the jobs of which the sink said that the queue has them. */
export function deliveredOf(jobs: readonly Job[], deliveries: readonly Delivery[]): string[] {
  return jobs.filter((_, index) => deliveries[index] === 'delivered').map(({ id }) => id)
}

/** Why a job was not delivered. */
export function failureOf(delivery: Delivery | undefined): string {
  if (delivery === undefined || delivery === 'delivered') return String(delivery)
  return delivery.error instanceof Error ? delivery.error.message : String(delivery.error)
}

const long = process.env.ONCEKEY_LONG === '1'

/** How often a server is killed in the middle of a batch, and how long that may take. */
export const kills = { rounds: long ? 20 : 1, timeout: long ? 600_000 : 120_000 }
