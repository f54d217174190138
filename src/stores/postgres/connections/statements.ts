/**
 * The statements of a script one by one: ORMs and the drivers below them may prepare what they send, which works for one statement at a
 * time. Knows quotes and line comments, which may hold semicolons; migrations have no functions and no block comments.
 */
export function statementsOf(script: string): string[] {
  const statements = ['']
  for (const [piece] of script.matchAll(/'[^']*'|"[^"]*"|--[^\n]*|[^'";-]+|./gs)) {
    if (piece === ';') statements.push('')
    else if (!piece.startsWith('--')) statements.push(statements.pop() + piece)
  }
  return statements.map((statement) => statement.trim()).filter((statement) => statement !== '')
}
