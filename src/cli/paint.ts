import util from 'node:util'

type Colour = 'red' | 'yellow' | 'green' | 'bold' | 'dim'

export type Paint = (colour: Colour, text: string) => string

/** Colours on a terminal only. (`styleText` came with Node 20.12.) */
export function painter(colours: boolean): Paint {
  // We decide: newer releases of Node would check the real standard output again.
  const style = util.styleText as ((colour: Colour, text: string, options: object) => string) | undefined
  return colours && style ? (colour, text) => style(colour, text, { validateStream: false }) : (_, text) => text
}

const levels = { ok: 'green', warn: 'yellow', fail: 'red' } as const

export function paintLevel(paint: Paint, level: keyof typeof levels, text: string): string {
  return paint(levels[level], text)
}

const states: Readonly<Record<string, Colour>> = {
  parked: 'red',
  failed: 'red',
  stuck: 'red',
  dead: 'red',
  processing: 'yellow',
  pending: 'yellow',
  complete: 'green',
}

export function paintState(paint: Paint, state: string, text = state): string {
  const colour = states[state]
  return colour ? paint(colour, text) : text
}
