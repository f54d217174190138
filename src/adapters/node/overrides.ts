/**
 * Own properties that stand in front of an object's real ones for a while. Others may have put some there before us (compression,
 * on-headers): those come back.
 */
export class Overrides<Target extends object> {
  readonly #before = new Map<PropertyKey, PropertyDescriptor | undefined>()

  constructor(readonly target: Target) {}

  method(name: PropertyKey, method: (...args: never[]) => unknown): void {
    this.property(name, method)
  }

  /** What is set meanwhile is gone with it. */
  property(name: PropertyKey, value: unknown): void {
    this.#remember(name)
    Object.defineProperty(this.target, name, { value, configurable: true, writable: true, enumerable: false })
  }

  /** What is set meanwhile reaches the real property, and is not seen before the override is gone. */
  value(name: PropertyKey, get: () => unknown): void {
    const before = this.#remember(name)
    const set = (value: unknown) => {
      if (before && 'value' in before) before.value = value
      // Which of them are properties and which have a setter differs between versions of Node.
      else Reflect.set(Object.getPrototypeOf(this.target), name, value, this.target)
    }
    Object.defineProperty(this.target, name, { get, set, configurable: true, enumerable: false })
  }

  /** What is behind an override. */
  original<Name extends keyof Target>(name: Name): Target[Name] {
    return this.replaced(name) ?? this.inherited(name)
  }

  /** What somebody else had put there before us; undefined if nobody had. */
  replaced<Name extends keyof Target>(name: Name): Target[Name] | undefined {
    return this.#before.get(name)?.value
  }

  /** What is behind all of them. */
  inherited<Name extends keyof Target>(name: Name): Target[Name] {
    return Object.getPrototypeOf(this.target)[name]
  }

  remove(names: Iterable<PropertyKey> = [...this.#before.keys()]): void {
    for (const name of names) {
      const before = this.#before.get(name)
      if (before) Object.defineProperty(this.target, name, before)
      else delete (this.target as Record<PropertyKey, unknown>)[name]
      this.#before.delete(name)
    }
  }

  #remember(name: PropertyKey): PropertyDescriptor | undefined {
    const before = Object.getOwnPropertyDescriptor(this.target, name)
    this.#before.set(name, before)
    return before
  }
}
