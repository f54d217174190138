import { type IncomingMessage, ServerResponse } from 'node:http'

/** Node 20 and 22. */
const partsShapes = Number.parseInt(process.versions.v8, 10) < 13

/**
 * Whether somebody gave a response another prototype than Node did, as Express does with each. V8 before version 13 shares no shapes between objects
 * to which that was done: whatever is added to one of them makes a new shape, of a kilobyte or more, and no code that has met all others has met
 * this one.
 */
export function sharesNoShape(response: ServerResponse): boolean {
  return partsShapes && response instanceof ServerResponse && Object.getPrototypeOf(response) !== ServerResponse.prototype
}

const first = Symbol('oncekey.first')
const second = Symbol('oncekey.second')
const temporary = { configurable: true, writable: true, enumerable: false }

/**
 * Makes dictionaries of them: then all requests share one shape, and all responses. It takes a few microseconds, and saves a quarter of what Node does
 * for a request of Express even where we do nothing (`docs/decisions/0009`). Newer versions of V8 are slower with dictionaries.
 */
export function giveOneShape(request: IncomingMessage, response: ServerResponse): void {
  toDictionary(request)
  toDictionary(response)
}

/** It is one as soon as it loses a property that was not its last. Nothing throws at an object that takes none. */
function toDictionary(object: object): void {
  Reflect.defineProperty(object, first, temporary)
  Reflect.defineProperty(object, second, temporary)
  Reflect.deleteProperty(object, first)
  Reflect.deleteProperty(object, second)
}
