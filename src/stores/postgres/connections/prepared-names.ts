/**
 * Names for prepared statements: the same text has the same name, on every connection, until it was sent twice as often. Postgres keeps the
 * plan of a prepared statement, and on a table that is still empty the best plan is to read all of it. A new name is a new plan, so a
 * table that grows has one of its own size; after a few hundred statements it goes by the primary key, and the later ones change nothing.
 */
export function preparedNames(): (text: string) => string {
  // Another one on the same pool has names of its own.
  const prefix = `oncekey_${crypto.randomUUID()}`
  const sent = new Map<string, { readonly number: number; times: number }>()
  return (text) => {
    const statement = sent.get(text) ?? { number: sent.size, times: 0 }
    sent.set(text, statement)
    statement.times += 1
    return `${prefix}_${statement.number}_${32 - Math.clz32(statement.times)}`
  }
}
