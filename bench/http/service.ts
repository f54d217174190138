// One HTTP service, in a process of its own: POST /orders in a framework, in one of the ways to guard it. Tells its port, and ends when its
// standard input does.
import process from 'node:process'
import type { Framework } from '../sections/titles.js'
import type { ServiceSettings } from './start-service.js'

const services: Readonly<Record<Framework, () => Promise<{ start(settings: ServiceSettings): Promise<number> }>>> = {
  fastify: () => import('./services/fastify.js'),
  express: () => import('./services/express.js'),
  koa: () => import('./services/koa.js'),
  node: () => import('./services/node.js'),
  hono: () => import('./services/hono.js'),
  fetch: () => import('./services/fetch.js'),
  'nest-express': () => import('./services/nest.js'),
  'nest-fastify': () => import('./services/nest.js'),
}

const settings: ServiceSettings = JSON.parse(process.argv[2] as string)
const { start } = await services[settings.framework]()
const port = await start(settings)
process.stdin.on('end', () => process.exit(0)).resume()
console.log(port)
