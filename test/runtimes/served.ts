// The service in Bun or Deno: the store's name is the first argument, the database's address the second.
import { serviceOf } from './service.js'
import { storeOf } from './stores.js'

interface Runtimes {
  readonly Bun?: { serve(options: object): { readonly port: number } }
  readonly Deno?: {
    readonly args: string[]
    serve(options: object, handler: (request: Request) => Promise<Response>): { readonly addr: { readonly port: number } }
  }
}

const { Bun, Deno } = globalThis as Runtimes
const [store = 'memory', url] = process.argv.slice(2)
const handler = serviceOf(storeOf(store, url))
const listening = { port: 0, hostname: '127.0.0.1' }
const port = Bun ? Bun.serve({ ...listening, fetch: handler }).port : Deno?.serve({ ...listening, onListen: () => {} }, handler).addr.port
console.log(JSON.stringify({ port }))
