/**
 * Methods that stand in front of Node's, on a prototype of their own, for objects to which a framework has given a prototype: Express gives
 * one to each request and response when it begins with it, and on Node 20 whatever is added to an object after that takes microseconds,
 * and more than a kilobyte. Fourteen properties, eight of them on the response, were a quarter of what a new key cost Node.
 *
 * Not a prototype for the time that an object is held, because Express puts another one there for each mounted application: this one is
 * below all of those, for the whole process, and its methods ask whether the object is held just now.
 */
export interface Front<Target extends object> {
  /** What Node's own objects have. */
  readonly own: Target
  /** Made on top of that. */
  readonly methods: Target
  /** Whether an object has the methods of `origin`, and nobody has replaced any. */
  isPlain(object: Target, origin: Target): boolean
}

/** Whether an object is behind the front. It is put there if it could be: once for each framework. */
export function isBehind<Target extends object>(object: Target, { own, methods, isPlain }: Front<Target>): boolean {
  if (isPlain(object, methods)) return true
  let above: object = Object.getPrototypeOf(object)
  if (above === own || !isPlain(object, own)) return false
  while (Object.getPrototypeOf(above) !== own) above = Object.getPrototypeOf(above)
  // False for one that is frozen.
  return Reflect.setPrototypeOf(above, methods)
}
