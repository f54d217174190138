import { OncekeyError } from '../core/errors.js'
import { jsonText } from '../core/json-text.js'

/** The part of Standard Schema (zod, valibot, arktype, …) that we need. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type StandardResult<Output> = { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly Issue[] }

/** One thing that is wrong with an input, and where. */
export interface Issue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

export type InputOf<Schema> = Schema extends StandardSchema<infer Input, unknown> ? Input : unknown
export type OutputOf<Schema> = Schema extends StandardSchema<infer _Input, infer Output> ? Output : unknown

export async function validated<Schema extends StandardSchema | undefined>(
  schema: Schema,
  input: unknown,
): Promise<{ readonly value: OutputOf<Schema>; readonly issues?: undefined } | { readonly issues: readonly Issue[] }> {
  if (!schema) return { value: input as OutputOf<Schema> }
  const result = await schema['~standard'].validate(input)
  if (!result.issues) return { value: result.value as OutputOf<Schema> }
  // Some libraries bring a list with habits of its own.
  return { issues: Array.from(result.issues, ({ message, path }) => (path ? { message, path } : { message })) }
}

/** The raw input, as it is fingerprinted, stored and resumed with. */
export function inputBytes(input: unknown): Uint8Array {
  return new TextEncoder().encode(jsonText(input ?? null, notJson))
}

const notJson = (cause: unknown) =>
  new OncekeyError('input_invalid', 'The input is not JSON, so it cannot be kept for a later attempt.', { cause })

export function inputFromBytes(bytes: Uint8Array): unknown {
  return JSON.parse(new TextDecoder().decode(bytes))
}
