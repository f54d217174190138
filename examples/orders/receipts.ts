import type { Job } from 'oncekey/outbox'
import type { Connection } from 'oncekey/postgres'

/** Delivers staged receipts. The relay may bring one twice, after a crash between the mail and its note of it: a real mailer gets `job.id`. */
export function receipts(database: Connection<unknown>) {
  return async ({ payload }: Job): Promise<void> => {
    const { order, to } = payload as { order: string; to: string }
    await database.query('update orders set receipt_sent_at = clock_timestamp() where id = $1::uuid and receipt_sent_at is null', [order])
    console.log(`  oncekey: a receipt is on its way to ${to}`)
  }
}
