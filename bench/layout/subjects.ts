import type pg from 'pg'
import { checkLayout } from './check.js'
import type { Layout } from './layouts.js'
import { type Bench, emptyTables } from './round.js'
import type { Subject } from './workload.js'

/** Creates one empty copy of a layout and checks that it keeps its promises. */
export async function createSubject({ admin, lanes, bodyBytes }: Bench, layout: Layout, suffix: string): Promise<Subject> {
  const name = `${layout.name.replaceAll(' ', '_')}_${suffix}`
  const subject = { layout, name, copy: layout.on(name), bodyBytes }
  await admin.query(subject.copy.create)
  await checkLayout(lanes[0] as pg.Client, admin, subject)
  await emptyTables(admin, subject)
  return subject
}

export async function dropSubject(admin: pg.Client, { copy }: Subject) {
  await admin.query(`drop table ${copy.tables.join(', ')}`)
}
