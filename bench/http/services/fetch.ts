import { idempotency } from 'oncekey/fetch'
import { fetchListener } from '../../../test/adapters/fetch-listener.js'
import { fetchFloor } from '../floors/fetch.js'
import { floorOf } from '../floors/floor.js'
import { listening } from '../listening.js'
import type { ServiceSettings } from '../start-service.js'
import { openOnce, options, orderOf } from '../store.js'

/** With the standard's own `Request` and `Response`, such as a route handler of Next.js is given and returns. */
export function start(settings: ServiceSettings): Promise<number> {
  if (settings.way === 'oncekey') return listening(fetchListener(idempotency(openOnce(settings), options)(create)))
  if (settings.way === 'bare') return listening(fetchListener(create))
  const floor = floorOf(settings)
  return listening(fetchListener((request) => fetchFloor(floor, request, create)))
}

const create = async (request: Request) => Response.json(orderOf(((await request.json()) as { item: string }).item), { status: 201 })
