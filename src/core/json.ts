/**
 * What JSON makes of a value, as a type: a first run and a replay must see the same, so a `Date` is a text in both.
 */
export type Json<T> = unknown extends T
  ? unknown
  : T extends { toJSON(): infer U }
    ? Json<U>
    : T extends string | number | boolean | null
      ? T
      : T extends undefined | symbol | bigint | ((...parameters: never[]) => unknown)
        ? undefined
        : T extends readonly unknown[]
          ? { [Index in keyof T]: JsonElement<T[Index]> }
          : T extends object
            ? { [Name in keyof T as JsonMember<Name, T[Name]>]: Json<T[Name]> }
            : never

/** In an array, what JSON cannot say becomes null. */
type JsonElement<T> = Json<T> extends undefined ? null : Json<T>

/** In an object, a member that JSON cannot say is left out. */
type JsonMember<Name, Value> = Name extends string | number
  ? Value extends symbol | ((...parameters: never[]) => unknown)
    ? never
    : Name
  : never
