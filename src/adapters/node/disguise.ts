import type { IncomingMessage } from 'node:http'

/** An object of Node's that looks and acts in another way for a while. */
export interface Disguise<Target extends object> {
  /** What is behind a method that we stand in front of. */
  original<Name extends keyof Target>(name: Name): Target[Name]
  /** What is behind that of everybody. */
  inherited<Name extends keyof Target>(name: Name): Target[Name]
  /** What somebody else had put there before us; undefined if nobody had. */
  replaced<Name extends keyof Target>(name: Name): Target[Name] | undefined
  /** Changes what is seen. */
  show(name: PropertyKey, value: unknown): void
  /** Node sets properties of its own, and emits an event when it has: before anybody hears of it, they are as they should seem. */
  hideChanges(): void
  /** Default: all of it. */
  remove(names?: readonly PropertyKey[]): void
}

/** As much of it as a request needs: it shows nothing but another socket. */
export type RequestDisguise = Pick<Disguise<IncomingMessage>, 'original' | 'hideChanges' | 'remove'>
