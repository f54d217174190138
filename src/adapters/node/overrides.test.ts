import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { Overrides } from './overrides.js'

const newResponse = () => new ServerResponse(new IncomingMessage(new Socket()))

test('what Node sets meanwhile is not seen from the next event on, and is there when the override is gone', () => {
  const response = newResponse()
  const overrides = new Overrides(response)
  overrides.value('destroyed', false)
  overrides.value('socket', null)
  const socket = new Socket()
  Object.assign(response, { destroyed: true, socket })
  overrides.hideChanges()
  expect([response.destroyed, response.socket]).toEqual([false, null])
  overrides.remove()
  expect([response.destroyed, response.socket === socket]).toEqual([true, true])
})

test('what stood there before comes back, and what is left is what was inherited', () => {
  const response = newResponse()
  const before = () => response
  response.end = before
  const names = Reflect.ownKeys(response)
  const overrides = new Overrides(response)
  overrides.method('end', () => response)
  overrides.method('write', () => true)
  overrides.value('headersSent', true)
  expect([response.end === before, response.headersSent, overrides.original('end') === before]).toEqual([false, true, true])
  overrides.remove()
  expect([response.end === before, response.headersSent, response.write === ServerResponse.prototype.write]).toEqual([true, false, true])
  expect(Reflect.ownKeys(response).filter((name) => !names.includes(name))).toEqual(['write'])
})
