const throws = () => {
  throw new Error('looked at')
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable(new Error('revoked'), {})
  revoke()
  return proxy
}

/** What code may throw that breaks whatever looks at it carelessly. */
export const monsters: Readonly<Record<string, () => unknown>> = {
  nothing: () => undefined,
  'an object without a prototype': () => Object.create(null),
  'an error whose message is a Symbol': () => Object.assign(new Error(), { message: Symbol('message') }),
  'an error whose name is a Symbol': () => Object.assign(new Error('named'), { name: Symbol('name') }),
  'an error whose message cannot be made a text': () => Object.assign(new Error(), { message: Object.create(null) }),
  'an error whose properties throw': () =>
    Object.defineProperties(
      new Error(),
      Object.fromEntries(['message', 'name', 'code', 'cause', 'meta', 'status'].map((name) => [name, { get: throws }])),
    ),
  'an object whose toString throws': () => ({ toString: throws }),
  'a proxy that throws at everything': () =>
    new Proxy(new Error(), { get: throws, has: throws, getPrototypeOf: throws, ownKeys: throws, getOwnPropertyDescriptor: throws }),
  'a revoked proxy': revoked,
  'an error that causes itself': () => {
    const error = new Error('again')
    error.cause = error
    return error
  },
  'an error whose cause is a revoked proxy': () => new Error('caused', { cause: revoked() }),
  'an error of a very long text': () => new Error('x'.repeat(20_000_000)),
  'a Symbol': () => Symbol('thrown'),
  'a BigInt': () => 10n,
  'text that no database can keep': () => new Error('a\0b\uD800'),
}
