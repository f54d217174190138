import { describe, expect, test } from 'vitest'
import { pages, pagesByKey } from './pages.js'

async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of stream) found.push(item)
  return found
}

describe('pages', () => {
  test('go on where the page before said, up to the last one', async () => {
    const asked: (string | undefined)[] = []
    const stream = pages(async (cursor?: string) => {
      asked.push(cursor)
      if (cursor === undefined) return { items: [1, 2], next: 'p2' }
      return cursor === 'p2' ? { items: [], next: 'p3' } : { items: [3], next: null }
    })
    expect(await all(stream)).toEqual([1, 2, 3])
    expect(asked).toEqual([undefined, 'p2', 'p3'])
  })

  test('are asked for when they are needed, and not before', async () => {
    let asked = 0
    const stream = pages((cursor: number | undefined) => {
      asked += 1
      return { items: ['a', 'b'], next: (cursor ?? 0) + 1 }
    })
    await stream.next()
    await stream.next()
    expect(asked).toBe(1)
    await stream.next()
    expect(asked).toBe(2)
    await stream.return()
  })

  test('that lead to themselves are an error, not an endless loop', async () => {
    await expect(all(pages(() => ({ items: [], next: 'again' })))).rejects.toMatchObject({ code: 'option_invalid' })
  })
})

describe('pages by key', () => {
  test('begin after the last key, and end with an empty one', async () => {
    const asked: (number | undefined)[] = []
    const rows = [1, 2, 3, 4, 5].map((id) => ({ id }))
    const stream = pagesByKey(
      async (after?: number) => {
        asked.push(after)
        return rows.filter(({ id }) => id > (after ?? 0)).slice(0, 2)
      },
      (row) => row.id,
    )
    expect(await all(stream)).toEqual(rows)
    expect(asked).toEqual([undefined, 2, 4, 5])
  })
})
