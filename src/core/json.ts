/** Any JSON: `Json` maps it to itself. Without this, a recursive type would expand without end. */
type AnyJson = string | number | boolean | null | AnyJson[] | { [name: string]: AnyJson }

/** The type of a value after JSON: a first run and a replay must return the same, so a `Date` is a string in both. */
export type Json<T> = unknown extends T
  ? unknown
  : [AnyJson] extends [T]
    ? T
    : T extends { toJSON(): infer U }
      ? Json<U>
      : T extends string | number | boolean | null
        ? T
        : T extends Unsayable
          ? undefined
          : T extends readonly unknown[]
            ? { [Index in keyof T]: JsonElement<T[Index]> }
            : T extends object
              ? { [Name in keyof T as JsonMember<Name, T[Name]>]: Json<T[Name]> }
              : never

type Unsayable = undefined | symbol | bigint | ((...parameters: never[]) => unknown)

/** In an array, an element without a JSON form becomes null. */
type JsonElement<T> = T extends Unsayable ? null : T extends { toJSON(): infer U } ? JsonElement<U> : Json<T>

/** In an object, a member without a JSON form is left out. */
type JsonMember<Name, Value> = Name extends string | number
  ? Value extends symbol | ((...parameters: never[]) => unknown)
    ? never
    : Name
  : never
