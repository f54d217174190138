import type { IncomingMessage, RequestListener } from 'node:http'
import { idempotency } from 'oncekey/node'
import { floorOf } from '../floors/floor.js'
import { nodeFloor } from '../floors/node.js'
import { listening } from '../listening.js'
import type { ServiceSettings } from '../start-service.js'
import { openOnce, options, orderOf } from '../store.js'

export function start(settings: ServiceSettings): Promise<number> {
  if (settings.way === 'oncekey') return listening(idempotency(openOnce(settings), options)(create))
  return listening(settings.way === 'floor' ? behindFloor(settings) : create)
}

async function create(request: IncomingMessage, response: Parameters<RequestListener>[1]): Promise<void> {
  answer((await bytesOf(request)).toString(), response)
}

function answer(text: string, response: Parameters<RequestListener>[1]): void {
  const body = JSON.stringify(orderOf(JSON.parse(text).item))
  response.writeHead(201, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body)
}

/** The floor has read the body, and hands it on. */
function behindFloor(settings: ServiceSettings): RequestListener {
  const floor = floorOf(settings)
  return async (request, response) => {
    const body = await bytesOf(request)
    await nodeFloor(floor, request, response, body, () => answer(body.toString(), response)).catch(() => response.writeHead(409).end())
  }
}

function bytesOf(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    request.on('data', (piece) => pieces.push(piece))
    request.on('end', () => resolve(Buffer.concat(pieces)))
    request.on('error', reject)
  })
}
