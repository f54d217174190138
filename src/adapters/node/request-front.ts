import { IncomingMessage } from 'node:http'
import type { Front } from './front.js'
import { requestHeldBy } from './held-socket.js'
import { isPlainRequest } from './plain-request.js'

/** Where a request has what reads its body while it arrives. */
export const arriving = Symbol('oncekey.arriving')

interface Reading {
  push(chunk: Buffer | string | null, encoding?: BufferEncoding): boolean
}

interface Holder {
  destroy(error: Error | undefined): IncomingMessage
  emit(event: string, details: readonly unknown[]): boolean
}

const own = IncomingMessage.prototype

/** What stands in front of the methods of a request. */
export const requestFront: Front<IncomingMessage> = {
  own,
  methods: Object.assign(Object.create(own), {
    push(this: IncomingMessage & { [arriving]?: Reading }, chunk: Buffer | string | null, encoding?: BufferEncoding) {
      const reading = this[arriving]
      return reading ? reading.push(chunk, encoding) : own.push.call(this, chunk, encoding)
    },
    destroy(this: IncomingMessage, error?: Error) {
      const holder = requestHeldBy<Holder>(this)
      return holder ? holder.destroy(error) : own.destroy.call(this, error)
    },
    emit(this: IncomingMessage, event: string, ...details: unknown[]) {
      const holder = requestHeldBy<Holder>(this)
      return holder ? holder.emit(event, details) : own.emit.call(this, event, ...details)
    },
  }),
  isPlain: isPlainRequest,
}
