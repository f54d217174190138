// biome-ignore lint/suspicious/noExplicitAny: rows come from drivers, which know no better; queries/ give them their types.
export type Row = Record<string, any>

/** What every driver sends alike. */
export type SentValue = string | number | boolean | Uint8Array | null

export interface StatementOptions {
  /** Sent with every request, so a connection that can keep it prepared should. Default: false. */
  readonly often?: boolean | undefined
  /**
   * How long its caller waits. After that, a driver that hands out connections destroys the one in use and rejects with `store_timeout`; with any
   * other driver the caller stops waiting. Default: no limit.
   */
  readonly timeoutMs?: number | undefined
}

/** Something that runs a statement: a pool, or one transaction. */
export interface Queryable {
  query(text: string, values: readonly SentValue[], options?: StatementOptions): Promise<readonly Row[]>
  /**
   * True while bytes that are sent for a parameter of another type than `bytea` are taken for its binary format. Then arrays are sent in it, which
   * saves the server much of its work on a batch. Default: false.
   */
  readonly sendsBinary?: boolean | undefined
  /** True if each statement ends at its `timeoutMs` without help. Default: false, and the store stops waiting by itself. */
  readonly endsInTime?: boolean | undefined
  /**
   * The value of `oncekey.transaction` that the transaction set when it began. If the last statement finds another value, the work has ended the
   * transaction. Default: nothing was set, nothing is checked.
   */
  readonly mark?: string | undefined
  /**
   * What stays the same as long as a session of the user's own does: its settings are checked once. Default: those of one transaction are checked,
   * for all.
   */
  readonly session?: object | undefined
}

export interface TransactionTimes {
  /** To get a connection and begin, and again to commit or roll back. */
  readonly timeoutMs: number
  /** For the work in between. */
  readonly workMs: number
}

/**
 * The user's own database connection, of whatever driver. `Tx` is what that driver calls a transaction: the user's writes
 * and ours go through the same one.
 */
export interface Connection<Tx> extends Queryable {
  /** A driver that hands out connections destroys its own at either limit, so that no lock outlives the caller. */
  transaction<T>(work: (tx: Tx) => Promise<T>, times?: TransactionTimes): Promise<T>
  /** Our statements inside the user's transaction. */
  within(tx: Tx): Queryable
  /** True if several objects may stand for one transaction, as with nested ones. It costs a statement in each `within`. Default: false. */
  readonly nests?: boolean | undefined
  /** True if there is one session only, as in an embedded database: a transaction keeps all other statements waiting. */
  readonly singleSession?: boolean | undefined
  /** Runs several statements that take no values, in one transaction of the user's kind. */
  script(tx: Tx, text: string): Promise<void>
}
