/** What every adapter re-exports, so that one import is enough. */
export { type FieldSource, field, type HeaderSource, header, type KeySource } from './key-source.js'
export type { AsyncServeOptions, HttpOptions, IdempotencyOptions, ServeOptions, StatusOptions, SyncServeOptions } from './options.js'
export type { Profile } from './profiles.js'
export { runOf } from './run-of.js'
export type { Servable } from './serve.js'
export { type SignedRequest, type StandardWebhook, type StripeLike, standardWebhooks, stripeWebhooks, type Verify } from './signatures.js'
export type { Receiver, WebhookOptions } from './webhook.js'
