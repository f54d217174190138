/** What the groups of a run are called, so that bars and chart find them. */
export const storeTitle = (outstanding: number) => `Claim and finish, ${outstanding} outstanding`

export const twoStepTitle = (outstanding: number) => `Two steps (an order is written, a provider called), ${outstanding} outstanding`

export const growthTitle = (rows: number) => `Claim and finish beside ${rows.toLocaleString('en')} stored keys, 256 outstanding`

export const httpModes = { new: 'new keys', replay: 'hot replays', duplicates: '10 % duplicates' } as const

export type HttpMode = keyof typeof httpModes

export const httpTitle = (framework: 'Fastify' | 'Express', mode: HttpMode, connections: number) =>
  `${framework}, ${httpModes[mode]}, ${connections} connections`

export const redisTitle = (what: 'new keys' | 'replays', outstanding: number) => `Stores: ${what}, ${outstanding} outstanding`

export const redisHttpTitle = (connections: number) => `Fastify with and without Redis, hot replays, ${connections} connections`
