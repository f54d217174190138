interface Override {
  readonly name: PropertyKey
  /** The own property that was there; undefined if there was none. */
  readonly before: PropertyDescriptor | undefined
  /** Whether it is Node's own data property with another value in it for a while, and which: what is set meanwhile is the real one. */
  readonly inPlace: boolean
  shown?: unknown
}

/**
 * Own properties that stand in front of an object's real ones for a while. Others may have put some there before us (compression,
 * on-headers): those come back.
 *
 * All requests of a service pass here, so it keeps to what V8 has one shape for: properties are assigned where that does the same as
 * defining them, an accessor is the last resort, and the last one that came is the first to go. With accessors it took 26 µs to hold a
 * response, whose shape was like no other's; so it takes 3 µs.
 */
export class Overrides<Target extends object> {
  readonly #overrides: Override[] = []

  constructor(readonly target: Target) {}

  method(name: PropertyKey, method: (...args: never[]) => unknown): void {
    this.property(name, method)
  }

  /** What is set meanwhile is gone with it. */
  property(name: PropertyKey, value: unknown): void {
    const before = Object.getOwnPropertyDescriptor(this.target, name)
    this.#overrides.push({ name, before, inPlace: false })
    if (before && !before.writable) this.#define(name, value)
    else this.#set(name, value)
  }

  /** What is set meanwhile reaches the real property, and is not seen before the override is gone: see `hideChanges()`. */
  value(name: PropertyKey, shown: unknown): void {
    const before = Object.getOwnPropertyDescriptor(this.target, name)
    const override: Override = { name, before, inPlace: before?.writable === true, shown }
    this.#overrides.push(override)
    if (override.inPlace) this.#set(name, shown)
    // Which of them are properties and which have a setter differs between versions of Node.
    else if (before || hasSetter(this.target, name)) this.#defineAccessor(override)
    else this.#define(name, shown)
  }

  /** Changes what is seen, while the override is there. */
  show(name: PropertyKey, shown: unknown): void {
    const override = this.#find(name)
    if (!override) return
    override.shown = shown
    if (override.inPlace || !hasSetter(this.target, name)) this.#set(name, shown)
  }

  /** Node sets properties of its own, and emits an event when it has: before anybody hears of it, they are as they should seem. */
  hideChanges(): void {
    for (const { inPlace, name, before, shown } of this.#overrides) {
      if (!inPlace) continue
      const now = this.#get(name)
      if (now === shown) continue
      ;(before as PropertyDescriptor).value = now
      this.#set(name, shown)
    }
  }

  /** What is behind an override. */
  original<Name extends keyof Target>(name: Name): Target[Name] {
    return this.replaced(name) ?? this.inherited(name)
  }

  /** What somebody else had put there before us; undefined if nobody had. */
  replaced<Name extends keyof Target>(name: Name): Target[Name] | undefined {
    return this.#find(name)?.before?.value
  }

  /** What is behind all of them. */
  inherited<Name extends keyof Target>(name: Name): Target[Name] {
    return Object.getPrototypeOf(this.target)[name]
  }

  /** Default: all of them. */
  remove(names?: readonly PropertyKey[]): void {
    this.hideChanges()
    for (let index = this.#overrides.length - 1; index >= 0; index -= 1) {
      const { name, before, inPlace } = this.#overrides[index] as Override
      if (names && !names.includes(name)) continue
      this.#overrides.splice(index, 1)
      if (inPlace) this.#set(name, before?.value)
      else if (before) Object.defineProperty(this.target, name, before)
      else delete (this.target as Record<PropertyKey, unknown>)[name]
    }
  }

  #find(name: PropertyKey): Override | undefined {
    return this.#overrides.find((override) => override.name === name)
  }

  #get(name: PropertyKey): unknown {
    return (this.target as Record<PropertyKey, unknown>)[name]
  }

  #set(name: PropertyKey, value: unknown): void {
    ;(this.target as Record<PropertyKey, unknown>)[name] = value
  }

  #define(name: PropertyKey, value: unknown): void {
    Object.defineProperty(this.target, name, { value, configurable: true, writable: true, enumerable: false })
  }

  #defineAccessor(override: Override): void {
    const { name, before } = override
    const get = () => override.shown
    const set = (value: unknown) => {
      if (before && 'value' in before) before.value = value
      else Reflect.set(Object.getPrototypeOf(this.target), name, value, this.target)
    }
    Object.defineProperty(this.target, name, { get, set, configurable: true, enumerable: false })
  }
}

function hasSetter(target: object, name: PropertyKey): boolean {
  for (let at: object | null = Object.getPrototypeOf(target); at; at = Object.getPrototypeOf(at)) {
    const property = Object.getOwnPropertyDescriptor(at, name)
    if (property) return property.set !== undefined
  }
  return false
}
