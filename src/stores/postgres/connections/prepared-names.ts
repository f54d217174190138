/** Names for prepared statements: the same text has the same name, on every connection. */
export function preparedNames(): (text: string) => string {
  // Another one on the same pool has names of its own.
  const prefix = `oncekey_${crypto.randomUUID()}`
  const names = new Map<string, string>()
  return (text) => {
    const name = names.get(text) ?? `${prefix}_${names.size}`
    names.set(text, name)
    return name
  }
}
