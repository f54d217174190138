import { OncekeyError } from '../core/errors.js'

export interface Page<Item, Cursor> {
  readonly items: Iterable<Item>
  /** Cursor of the next page; undefined or null on the last one. */
  readonly next?: Cursor | null | undefined
}

/**
 * Items of a paged API, as one stream. Each page is fetched when the previous one is used up.
 *
 * @example
 * pages(async (after?: string) => {
 *   const { data, has_more } = await provider.charges.list({ limit: 100, starting_after: after })
 *   return { items: data, next: has_more ? data.at(-1)?.id : undefined }
 * })
 */
export async function* pages<Item, Cursor>(
  read: (cursor: Cursor | undefined) => Promise<Page<Item, Cursor>> | Page<Item, Cursor>,
): AsyncGenerator<Item, void, undefined> {
  for (let cursor: Cursor | undefined; ; ) {
    const { items, next } = await read(cursor)
    yield* items
    if (next === undefined || next === null) return
    if (next === cursor) {
      throw new OncekeyError('option_invalid', `pages() got ${String(next)} as the next cursor twice in a row: it would never end.`)
    }
    cursor = next
  }
}

/**
 * Rows of a query, page by page: each page starts after the last key of the previous one, so that an index finds it at any depth. Ends with
 * the first empty page.
 *
 * @example
 * pagesByKey(
 *   async (after = '') =>
 *     (await pool.query('select id, amount from orders where id > $1 collate "C" order by id collate "C" limit 1000', [after])).rows,
 *   (order) => order.id,
 * )
 */
export function pagesByKey<Item, Key>(
  read: (after: Key | undefined) => Promise<readonly Item[]> | readonly Item[],
  keyOf: (item: Item) => Key,
): AsyncGenerator<Item, void, undefined> {
  return pages<Item, Key>(async (after) => {
    const items = await read(after)
    const last = items.at(-1)
    return { items, next: last === undefined ? undefined : keyOf(last) }
  })
}
