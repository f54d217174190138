// llms.txt, in the form of llmstxt.org. Its code and links are held to the sources with those of all pages.
import { expect, test } from 'vitest'
import { pages, read } from './pages.js'

const text = read('llms.txt')
const [preface = '', ...parts] = text.split('\n## ')
const links = parts.flatMap((part) => part.trim().split('\n').slice(2))

test('has a title, a summary, and lists of links with a line on each', () => {
  expect(preface).toMatch(/^# oncekey\n\n> \S/)
  expect(parts.map((part) => part.split('\n')[0])).toEqual(['Guide', 'Reference', 'Problems', 'Optional'])
  expect(links.filter((line) => !/^- \[[^\]]+\]\(docs\/[\w/.-]+\.md\): \S/.test(line))).toEqual([])
})

test('lists every page of docs/, once', () => {
  const listed = links.map((line) => /\((.*?)\)/.exec(line)?.[1])
  // docs/README.md is such a list itself.
  const all = pages.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md')
  expect(listed.sort()).toEqual(all.sort())
})

test('is published, and so is all that it leads to', () => {
  const { files } = JSON.parse(read('package.json')) as { files: string[] }
  expect(files).toEqual(expect.arrayContaining(['llms.txt', 'docs']))
})
