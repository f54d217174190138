// The service in workerd, as docs/guide/serverless.md has it: a timer belongs to the request that set it, so each request has its own `once`.
import { memoryStore } from 'oncekey/memory'
import { serviceOf } from './service.js'

const store = memoryStore()

export default { fetch: (request: Request): Promise<Response> => serviceOf(store)(request) }
