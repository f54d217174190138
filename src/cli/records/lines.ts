import { thrownText } from '../../core/thrown-text.js'
import { wrongUsage } from '../exit-codes.js'

/** A line of a file, with its number. */
export interface Line {
  readonly text: string
  readonly number: number
}

/**
 * The non-empty lines of a file, read in chunks. Only a line feed ends a line: JSON may contain other line separators. Invalid UTF-8 is an
 * error, because two keys could become one.
 */
export async function* linesOf(name: string, bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Line, void, undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let rest = ''
  let number = 0
  for await (const text of decoded()) {
    const lines = (rest + text).split('\n')
    rest = lines.pop() as string
    for (const line of lines) {
      number += 1
      if (line.trim() !== '') yield { text: line, number }
    }
  }
  if (rest.trim() !== '') yield { text: rest, number: number + 1 }

  async function* decoded() {
    try {
      for await (const chunk of bytes) yield decoder.decode(chunk, { stream: true })
      yield decoder.decode()
    } catch (error) {
      if (error instanceof TypeError) throw wrongUsage(`${name} is not UTF-8, somewhere after line ${number}.`)
      throw wrongUsage(`${name} cannot be read: ${thrownText(error)}`)
    }
  }
}
