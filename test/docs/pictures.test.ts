// The drawn pictures can be read by everybody: in light and dark, small, as text, with words for those who cannot see them.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { pages, read, root } from './pages.js'

const pictures = readdirSync(join(root, 'docs/images')).filter((name) => name.endsWith('.svg'))

test.each(pictures)('%s is small, has a title, a description and text, and colours for light and dark', (name) => {
  const picture = read(`docs/images/${name}`)
  expect(Buffer.byteLength(picture)).toBeLessThan(30_000)
  expect(picture).toMatch(/<title id="title">\S.*<\/title>/)
  expect(picture).toMatch(/<desc id="desc">\S.*<\/desc>/)
  expect(picture).toContain('@media (prefers-color-scheme: dark)')
  expect(picture.match(/<text /g)?.length).toBeGreaterThan(5)
})

test.each(pictures)('%s is shown on a page, with a text that stands for it', (name) => {
  const shown = pages
    .flatMap((page) => [...read(page).matchAll(/!\[([^\]]*)\]\(([^)]*)\)/g)])
    .filter(([, , path]) => path?.endsWith(`/${name}`))
  expect(shown.length).toBeGreaterThan(0)
  for (const [, words] of shown) expect(words?.length).toBeGreaterThan(10)
})
