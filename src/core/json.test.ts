import { describe, expect, expectTypeOf, test } from 'vitest'
import { type Answer, bodyOf, type Reply, reply } from './answer.js'
import type { Json } from './json.js'

// The compiler runs these: `npm run check:types` is red when one fails.

describe('Json', () => {
  test('leaves what JSON can say as it is', () => {
    expectTypeOf<Json<string>>().toEqualTypeOf<string>()
    expectTypeOf<Json<42 | 'a' | true | null>>().toEqualTypeOf<42 | 'a' | true | null>()
    expectTypeOf<Json<{ a: { b: number[] } }>>().toEqualTypeOf<{ a: { b: number[] } }>()
    expectTypeOf<Json<readonly [1, 'a']>>().toEqualTypeOf<readonly [1, 'a']>()
    expectTypeOf<Json<Record<string, number>>>().toEqualTypeOf<Record<string, number>>()
  })

  test('keeps the name of a branded text', () => {
    type OrderId = string & { readonly brand: 'OrderId' }
    expectTypeOf<Json<{ id: OrderId }>>().toEqualTypeOf<{ id: OrderId }>()
  })

  test('makes a text of a date, wherever it is', () => {
    expectTypeOf<Json<Date>>().toEqualTypeOf<string>()
    expectTypeOf<Json<{ at: Date; log: Date[]; due: Date | null }>>().toEqualTypeOf<{ at: string; log: string[]; due: string | null }>()
    expectTypeOf<Json<Record<string, Date>>>().toEqualTypeOf<Record<string, string>>()
  })

  test('asks toJSON, and what it returns again', () => {
    interface Money {
      cents: number
      toJSON(): { amount: number; at: Date }
    }
    expectTypeOf<Json<{ price: Money }>>().toEqualTypeOf<{ price: { amount: number; at: string } }>()
  })

  test('leaves methods and symbols out of objects', () => {
    class Order {
      id = 'order-1'
      total(): number {
        return 0
      }
      readonly [Symbol.toStringTag] = 'Order'
      readonly mark = Symbol('mark') as symbol
    }
    expectTypeOf<Json<Order>>().toEqualTypeOf<{ id: string }>()
  })

  test('keeps what may be missing', () => {
    expectTypeOf<Json<{ note?: string }>['note']>().toEqualTypeOf<string | undefined>()
    expectTypeOf<Json<{ note: Date | undefined }>['note']>().toEqualTypeOf<string | undefined>()
    expectTypeOf<Json<undefined>>().toEqualTypeOf<undefined>()
  })

  test('knows nothing of what it knows nothing of', () => {
    expectTypeOf<Json<unknown>>().toEqualTypeOf<unknown>()
    // biome-ignore lint/suspicious/noExplicitAny: what a driver's row is.
    expectTypeOf<Json<{ row: any; rows: any[] }>>().toEqualTypeOf<{ row: unknown; rows: unknown[] }>()
  })

  test('follows a type that contains itself', () => {
    interface Tree {
      at: Date
      children: Tree[]
    }
    expectTypeOf<Json<Tree>['children'][number]['children'][number]['at']>().toEqualTypeOf<string>()
  })

  test('makes null of an element that JSON cannot say', () => {
    expectTypeOf<Json<[undefined, () => void, symbol]>>().toEqualTypeOf<[null, null, null]>()
  })

  test('makes null of an element that JSON can only sometimes say', () => {
    expect(bodyOf(reply(200, ['a', undefined]))).toEqual(['a', null])
    expectTypeOf<Json<(string | undefined)[]>>().toEqualTypeOf<(string | null)[]>()
  })

  test('takes a type for any JSON', () => {
    type AnyJson = string | number | boolean | null | AnyJson[] | { [name: string]: AnyJson }
    expectTypeOf<Json<{ metadata: AnyJson; at: Date }>>().toEqualTypeOf<{ metadata: AnyJson; at: string }>()
  })
})

describe('reply', () => {
  test('remembers what its body looks like to JSON', () => {
    expectTypeOf(reply(201, { id: 'a', at: new Date(0) })).toEqualTypeOf<Reply<{ id: string; at: string }>>()
    expectTypeOf(reply(200, [new Date(0)], { 'x-a': '1' })).toEqualTypeOf<Reply<string[]>>()
    expectTypeOf(reply(200, null)).toEqualTypeOf<Reply<null>>()
  })

  test('remembers that there is no body', () => {
    expectTypeOf(reply(204)).toEqualTypeOf<Reply<undefined>>()
    expectTypeOf(reply(204, undefined, { etag: 'x' })).toEqualTypeOf<Reply<undefined>>()
  })

  test('knows nothing of bytes', () => {
    expectTypeOf(reply(200, Uint8Array.of(1))).toEqualTypeOf<Reply<unknown>>()
    expectTypeOf(reply(200, Buffer.from('x'))).toEqualTypeOf<Reply<unknown>>()
  })

  test('knows nothing of a body of type any', () => {
    // biome-ignore lint/suspicious/noExplicitAny: what a driver's row is.
    const row: any = { id: 'order-1' }
    expectTypeOf(reply(200, row)).toEqualTypeOf<Reply<unknown>>()
  })

  test('is an answer, of any kind', () => {
    expectTypeOf(reply(200, { id: 'a' })).toExtend<Answer>()
    expectTypeOf(reply(200, { id: 'a' })).toExtend<Reply>()
  })
})

describe('bodyOf', () => {
  test('has the type that the reply had', () => {
    expectTypeOf(bodyOf(reply(201, { id: 'a', at: new Date(0) }))).toEqualTypeOf<{ id: string; at: string }>()
    expectTypeOf(bodyOf(reply(204))).toEqualTypeOf<undefined>()
  })

  test('has every type that one of several replies had', () => {
    const either = (ok: boolean) => (ok ? reply(201, { id: 'a' }) : reply(402, { error: 'declined' }))
    expectTypeOf(bodyOf(either(true))).toEqualTypeOf<{ id: string } | { error: string }>()
  })

  test('knows nothing of a plain answer', () => {
    const answer: Answer = reply(200, { id: 'a' })
    expectTypeOf(bodyOf(answer)).toEqualTypeOf<unknown>()
  })
})
