import type { Disguise } from './disguise.js'

/** There was no own property. */
const absent = Symbol('absent')

/** An own property that is more than a value: it comes back as it was defined. */
class Defined {
  constructor(readonly descriptor: PropertyDescriptor) {}
}

/** In the place of what is seen, of an override that hides no changes: how it came there. */
const assigned = Symbol('assigned')
const defined = Symbol('defined')

/** What an accessor shows. */
class Accessed {
  constructor(public shown: unknown) {}
}

/** Each override is three elements of the list: its name, what was there before, and what is seen instead. */
const [before, shown, elements] = [1, 2, 3]

/**
 * Own properties that stand in front of an object's real ones for a while. Others may have put some there before us (compression,
 * on-headers): those come back.
 *
 * All requests of a service pass here, so it keeps to what V8 has one shape for. Properties are assigned where that does the same as
 * defining them, and are not deleted: an object that loses a property which was not its last becomes a dictionary, and all code that meets
 * it slower, Node's own included. And it makes one list instead of an object for each override: what requests hold while they wait is what
 * the garbage collector copies.
 */
export class Overrides<Target extends object> implements Disguise<Target> {
  readonly #list: unknown[] = []

  constructor(readonly target: Target) {}

  /**
   * What is set meanwhile is gone with it. One function for all objects, please: with one for each, no two have the same shape. Afterwards
   * the inherited function stays as the object's own.
   */
  method(name: PropertyKey, method: (...args: never[]) => unknown): void {
    this.property(name, method)
  }

  /** The same for what is no function. */
  property(name: PropertyKey, value: unknown): void {
    if (!Object.hasOwn(this.target, name)) {
      this.#list.push(name, absent, assigned)
      this.#set(name, value)
      return
    }
    const descriptor = Object.getOwnPropertyDescriptor(this.target, name) as PropertyDescriptor
    this.#list.push(name, new Defined(descriptor), assigned)
    if (descriptor.writable) this.#set(name, value)
    else this.#define(name, value)
  }

  /** What is set meanwhile reaches the real property, and is not seen before the override is gone: see `hideChanges()`. */
  value(name: PropertyKey, value: unknown): void {
    const descriptor = Object.getOwnPropertyDescriptor(this.target, name)
    // Node's own data property has another value in it for a while.
    if (descriptor?.writable) {
      this.#list.push(name, descriptor.value, value)
      this.#set(name, value)
      return
    }
    const was = descriptor ? new Defined(descriptor) : absent
    // Which of them are properties and which have a setter differs between versions of Node.
    if (descriptor || hasSetter(this.target, name)) {
      const accessed = new Accessed(value)
      this.#list.push(name, was, accessed)
      this.#defineAccessor(name, descriptor, accessed)
    } else {
      this.#list.push(name, was, defined)
      this.#define(name, value)
    }
  }

  /** Changes what is seen. Where that is seen already, because the object derives it from others that are overridden, nothing is done. */
  show(name: PropertyKey, value: unknown): void {
    if (this.#get(name) === value) return
    const at = this.#placeOf(name)
    if (at === -1) {
      this.value(name, value)
      return
    }
    const seen = this.#list[at + shown]
    if (seen instanceof Accessed) {
      seen.shown = value
      return
    }
    if (isInPlace(seen)) this.#list[at + shown] = value
    this.#set(name, value)
  }

  hideChanges(): void {
    for (let at = 0; at < this.#list.length; at += elements) {
      const seen = this.#list[at + shown]
      if (!isInPlace(seen)) continue
      const name = this.#list[at] as PropertyKey
      const now = this.#get(name)
      if (now === seen) continue
      this.#list[at + before] = now
      this.#set(name, seen)
    }
  }

  original<Name extends keyof Target>(name: Name): Target[Name] {
    return this.replaced(name) ?? this.inherited(name)
  }

  replaced<Name extends keyof Target>(name: Name): Target[Name] | undefined {
    const at = this.#placeOf(name)
    const was = at === -1 ? undefined : this.#list[at + before]
    return was instanceof Defined ? was.descriptor.value : undefined
  }

  inherited<Name extends keyof Target>(name: Name): Target[Name] {
    return Object.getPrototypeOf(this.target)[name]
  }

  remove(names?: readonly PropertyKey[]): void {
    this.hideChanges()
    for (let at = this.#list.length - elements; at >= 0; at -= elements) {
      if (names && !names.includes(this.#list[at] as PropertyKey)) continue
      this.#restore(at)
      if (names) this.#list.splice(at, elements)
    }
    if (!names) this.#list.length = 0
  }

  #restore(at: number): void {
    const name = this.#list[at] as PropertyKey
    const was = this.#list[at + before]
    const seen = this.#list[at + shown]
    if (isInPlace(seen)) this.#set(name, was)
    else if (was instanceof Defined) Object.defineProperty(this.target, name, was.descriptor)
    else if (seen === assigned) this.#set(name, this.inherited(name as keyof Target))
    // A getter is behind it.
    else delete (this.target as Record<PropertyKey, unknown>)[name]
  }

  #placeOf(name: PropertyKey): number {
    for (let at = 0; at < this.#list.length; at += elements) if (this.#list[at] === name) return at
    return -1
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

  #defineAccessor(name: PropertyKey, was: PropertyDescriptor | undefined, accessed: Accessed): void {
    const get = () => accessed.shown
    const set = (value: unknown) => {
      if (was && 'value' in was) was.value = value
      else Reflect.set(Object.getPrototypeOf(this.target), name, value, this.target)
    }
    Object.defineProperty(this.target, name, { get, set, configurable: true, enumerable: false })
  }
}

function isInPlace(seen: unknown): boolean {
  return seen !== assigned && seen !== defined && !(seen instanceof Accessed)
}

function hasSetter(target: object, name: PropertyKey): boolean {
  for (let at: object | null = Object.getPrototypeOf(target); at; at = Object.getPrototypeOf(at)) {
    const property = Object.getOwnPropertyDescriptor(at, name)
    if (property) return property.set !== undefined
  }
  return false
}
