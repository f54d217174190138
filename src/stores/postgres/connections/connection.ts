// biome-ignore lint/suspicious/noExplicitAny: rows come from drivers, which know no better; queries/ give them their types.
export type Row = Record<string, any>

/** What every driver sends alike. */
export type SentValue = string | number | boolean | Uint8Array | null

/** Something that runs a statement: a pool, or one transaction. */
export interface Queryable {
  /** `often`: sent with every request, so a connection that can keep it prepared should. */
  query(text: string, values: readonly SentValue[], often?: boolean): Promise<readonly Row[]>
  /**
   * True while bytes that are sent for a parameter of another type than `bytea` are taken for its binary format. Then arrays are sent in it, which
   * saves the server much of its work on a batch. Default: false.
   */
  readonly sendsBinary?: boolean | undefined
}

/**
 * The user's own database connection, of whatever driver. `Tx` is what that driver calls a transaction: the user's writes
 * and ours go through the same one.
 */
export interface Connection<Tx> extends Queryable {
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Our statements inside the user's transaction. */
  within(tx: Tx): Queryable
  /** Runs several statements that take no values, in one transaction of the user's kind. */
  script(tx: Tx, text: string): Promise<void>
}
