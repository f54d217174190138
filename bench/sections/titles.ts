/** What the groups of a run are called, so that bars and chart find them. */
export const storeTitle = (outstanding: number) => `Claim and finish, ${outstanding} outstanding`

export const twoStepTitle = (outstanding: number) => `Two steps (an order is written, a provider called), ${outstanding} outstanding`

export const growthTitle = (rows: number) => `Claim and finish beside ${rows.toLocaleString('en')} stored keys, 256 outstanding`

export const httpModes = { new: 'new keys', replay: 'hot replays', duplicates: '10 % duplicates' } as const

export type HttpMode = keyof typeof httpModes

/** What is measured over HTTP. Next.js hands its route handlers what `fetch` is measured with. */
export const frameworks = {
  fastify: 'Fastify',
  express: 'Express',
  koa: 'Koa',
  node: 'node:http',
  hono: 'Hono',
  fetch: 'fetch',
  'nest-express': 'Nest on Express',
  'nest-fastify': 'Nest on Fastify',
} as const

export type Framework = keyof typeof frameworks

/** Every framework is measured in these ways. */
export const adapterWays = ['bare', 'floor', 'oncekey'] as const

export type Way =
  | (typeof adapterWays)[number]
  | 'oncekey with an answer cache'
  | 'oncekey behind Redis'
  | '@node-idempotency/core'
  | 'express-idempotency'

export const serviceName = (framework: Framework, way: Way) => `${frameworks[framework]}, ${way}`

export const httpTitle = (framework: Framework, mode: HttpMode, connections: number) =>
  `${frameworks[framework]}, ${httpModes[mode]}, ${connections} connections`

export const loneTitle = (framework: Framework, mode: 'new' | 'replay') =>
  `${frameworks[framework]}, one request at a time, ${httpModes[mode]}`

export const redisTitle = (what: 'new keys' | 'replays', outstanding: number) => `Stores: ${what}, ${outstanding} outstanding`

export const redisHttpTitle = (connections: number) => `Fastify with and without Redis, hot replays, ${connections} connections`
