/** Next.js calls this when a server starts, and not while it builds. */
export async function register() {
  if (process.env.NEXT_RUNTIME !== 'nodejs') return
  const { prepare } = await import('./orders.js')
  await prepare()
}
