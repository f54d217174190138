// Draws docs/images/bench.svg from the JSON of a run: `npm run bench:chart -- [FILE]`.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { Group } from './harness/contender.js'
import { column, ratio } from './harness/report.js'
import { httpTitle, storeTitle, twoStepTitle } from './sections/titles.js'

const input = process.argv[2] ?? 'bench/results/bench.json'
const output = 'docs/images/bench.svg'
const charted = [
  ...[1, 64, 256, 1_024].map(storeTitle),
  twoStepTitle(64),
  httpTitle('fastify', 'new', 64),
  httpTitle('fastify', 'new', 256),
  httpTitle('express', 'new', 64),
  httpTitle('fastify', 'replay', 64),
]

const run: { date: string; processor: string; rounds: number; groups: readonly Group[]; postgres: Record<string, string> } = JSON.parse(
  readFileSync(input, 'utf8'),
)
const width = 860
const labelEnd = 330
const barWidth = 330
const rowHeight = 22
const headHeight = 46

const parts: string[] = []
let y = 56
for (const title of charted) {
  const group = run.groups.find((candidate) => candidate.title === title)
  if (group) y = draw(group, y)
}
if (parts.length === 0) throw new Error(`${input} has nothing to draw`)

const server = `Postgres ${run.postgres.server_version}, fsync ${run.postgres.fsync}`
const facts = `${server} · ${run.processor} · medians of ${run.rounds} interleaved rounds, line: lowest to highest · ${run.date.slice(0, 10)}`
const height = y + 12
mkdirSync('docs/images', { recursive: true })
writeFileSync(
  output,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title desc">
<title id="title">Requests per second, relative to the contender marked 1.00</title>
<desc id="desc">Bars of oncekey and of all it is compared with, for each number of outstanding requests, with the lowest and highest of the rounds.</desc>
<style>
  text { font: 12px system-ui, sans-serif; fill: #24292f; }
  .head { font-size: 14px; font-weight: 600; }
  .faint { fill: #57606a; }
  .end { text-anchor: end; }
  .own { fill: #1f6feb; }
  .other { fill: #afb8c1; }
  .spread { stroke: #24292f; stroke-width: 1; }
  .own-text { font-weight: 600; }
  .paper { fill: #ffffff; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .faint { fill: #9198a1; }
    .own { fill: #4493f8; }
    .other { fill: #57606a; }
    .spread { stroke: #e6edf3; }
    .paper { fill: #0d1117; }
  }
</style>
<rect class="paper" width="${width}" height="${height}" rx="6"/>
<text class="head" x="16" y="26">Requests per second, relative to the contender marked 1.00</text>
<text class="faint" x="16" y="44">${escaped(facts)}</text>
${parts.join('\n')}
</svg>
`,
)
console.error(`Wrote ${output}`)

/** One group from `top` on; returns where it ends. */
function draw(group: Group, top: number): number {
  parts.push(`<text class="head" x="16" y="${top + 28}">${escaped(group.title)}</text>`)
  const rows = Object.keys(group.samples).map((name) => ({ name, relative: ratio(group, name, group.reference) }))
  const longest = Math.max(...rows.map(({ relative }) => relative?.max ?? 0))
  const at = (value: number) => labelEnd + 10 + (barWidth * value) / longest
  for (const [index, { name, relative }] of rows.entries()) {
    if (!relative) continue
    const rowTop = top + headHeight - 8 + index * rowHeight
    const middle = rowTop + 8
    const isOwn = /\boncekey\b/.test(name) && !name.includes('batch: false')
    const perSecond = Math.round(column(group.samples[name], 'perSecond')?.median ?? 0).toLocaleString('en')
    parts.push(
      `<text class="end${isOwn ? ' own-text' : ''}" x="${labelEnd}" y="${rowTop + 12}">${escaped(name)}</text>`,
      `<rect class="${isOwn ? 'own' : 'other'}" x="${labelEnd + 10}" y="${rowTop}" width="${(at(relative.median) - labelEnd - 10).toFixed(1)}" height="16" rx="2"/>`,
      `<line class="spread" x1="${at(relative.min).toFixed(1)}" x2="${at(relative.max).toFixed(1)}" y1="${middle}" y2="${middle}"/>`,
      `<text x="${labelEnd + barWidth + 22}" y="${rowTop + 12}"${isOwn ? ' class="own-text"' : ''}>${relative.median.toFixed(2)}</text>`,
      `<text class="faint end" x="${width - 16}" y="${rowTop + 12}">${perSecond} / s</text>`,
    )
  }
  return top + headHeight + rows.length * rowHeight
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
