type Compare = (one: number, other: number) => number

/** The numbers below `count`, sorted, or null if two are equal. It yields where `isToPauseAfter()` says so of a compared number. */
export function* sortedInSlices(
  count: number,
  compare: Compare,
  isToPauseAfter: (one: number) => boolean,
): Generator<undefined, Int32Array | null> {
  let sorted = new Int32Array(count)
  let merged = new Int32Array(count)
  for (let index = 0; index < count; index += 1) sorted[index] = index
  for (let width = 1; width < count; width *= 2) {
    for (let start = 0; start < count; start += 2 * width) {
      const middle = Math.min(start + width, count)
      const merging = merge(sorted, merged, start, middle, Math.min(middle + width, count), compare, isToPauseAfter)
      if (!(yield* merging)) return null
    }
    ;[sorted, merged] = [merged, sorted]
  }
  return sorted
}

/** False if two are equal. */
function* merge(
  from: Int32Array,
  to: Int32Array,
  start: number,
  middle: number,
  end: number,
  compare: Compare,
  isToPauseAfter: (one: number) => boolean,
): Generator<undefined, boolean> {
  let [at, left, right] = [start, start, middle]
  while (left < middle && right < end) {
    const one = from[left] as number
    const other = from[right] as number
    const comparison = compare(one, other)
    if (comparison === 0) return false
    if (comparison < 0) left += 1
    else right += 1
    to[at++] = comparison < 0 ? one : other
    if (isToPauseAfter(one)) yield
  }
  while (left < middle) to[at++] = from[left++] as number
  while (right < end) to[at++] = from[right++] as number
  return true
}
