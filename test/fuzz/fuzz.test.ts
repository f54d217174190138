import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalBody } from '../../src/core/fingerprint/canonical-body.js'
import { excludedMembers } from '../../src/core/fingerprint/exclusions.js'
import { createFingerprinter } from '../../src/core/fingerprint/fingerprint.js'
import { parseKey } from '../../src/http/parse-key.js'
import { parsedCanonical } from '../support/parsed-canonical.js'
import { type Body, meaningOf } from './body-meaning.js'
import { bodyPairs } from './body-pairs.js'
import { headerLines } from './header-lines.js'
import { type ReferenceReading, referenceReading } from './key-reference.js'

/** `npm run fuzz` runs all of it; elsewhere a small part has to do. */
const full = process.env.ONCEKEY_FUZZ === 'full'
const seed = Number(process.env.ONCEKEY_SEED ?? Math.floor(Math.random() * 2 ** 30))
const timeout = full ? 3_600_000 : 60_000

test(`reads header values as the grammar does (ONCEKEY_SEED=${seed})`, { timeout }, async () => {
  const verdicts = { key: 0, missing: 0, refused: 0 }
  await runs('header values', headerLines, full ? 1_000_000 : 5_000, (lines) => {
    for (const syntax of ['lenient', 'strict'] as const) {
      const reading = parseKey(lines, syntax)
      const own: ReferenceReading = 'key' in reading ? reading.key : 'missing' in reading && null
      const reference = referenceReading(lines, syntax)
      if (own !== reference) throw new Error(`${syntax}: the parser reads ${shown(own)}, the grammar ${shown(reference)}`)
      verdicts[own === null ? 'missing' : own === false ? 'refused' : 'key'] += 1
    }
  })
  // Otherwise one side of the rules was hardly tried.
  const total = verdicts.key + verdicts.missing + verdicts.refused
  expect(verdicts.key / total).toBeGreaterThan(0.15)
  expect(verdicts.refused / total).toBeGreaterThan(0.15)
  expect(verdicts.missing).toBeGreaterThan(0)
})

test(`takes equal fingerprints of JSON bodies exactly if they mean the same (ONCEKEY_SEED=${seed})`, { timeout }, async () => {
  const takeFingerprint = createFingerprinter()
  const understand = (body: Body) => ({
    body,
    ...meaningOf(body),
    fingerprint: takeFingerprint({ mediaType: 'application/json', body }),
  })
  const outcomes = { same: 0, different: 0 }
  /** All bodies of the run are compared with each other, not only the two of a pair. */
  const meanings = new Map<string, string>()
  const fingerprints = new Map<string, string>()

  function compareWithAll({ body, meaning, isPlain, fingerprint }: ReturnType<typeof understand>): void {
    const digest = createHash('sha256').update(meaning).digest('base64')
    const bytes = Buffer.from(fingerprint.bytes).toString('base64')
    if ((meanings.get(bytes) ?? digest) !== digest) throw new Error(`a body that means something else is said to equal ${shown(body)}`)
    meanings.set(bytes, digest)
    if (!isPlain) return
    if ((fingerprints.get(digest) ?? bytes) !== bytes) throw new Error(`a body that means the same is said to differ from ${shown(body)}`)
    fingerprints.set(digest, bytes)
  }

  await runs('pairs of JSON bodies', bodyPairs, full ? 100_000 : 1_000, (pair) => {
    const [a, b] = [understand(pair[0]), understand(pair[1])]
    const difference = a.fingerprint.differenceFrom(b.fingerprint.bytes)
    if (difference !== b.fingerprint.differenceFrom(a.fingerprint.bytes)) throw new Error('the order decides')
    if (difference !== null && difference !== 'body') throw new Error(`the difference is said to be the ${difference}`)
    const isSame = difference === null
    const meansTheSame = a.meaning === b.meaning
    if (isSame && !meansTheSame) throw new Error('different bodies are called equal')
    const mustBeSame = a.spelling === b.spelling || (meansTheSame && a.isPlain && b.isPlain)
    if (!isSame && mustBeSame) throw new Error('equal bodies are called different')
    outcomes[isSame ? 'same' : 'different'] += 1
    compareWithAll(a)
    compareWithAll(b)
  })
  const total = outcomes.same + outcomes.different
  expect(outcomes.same / total).toBeGreaterThan(0.15)
  expect(outcomes.different / total).toBeGreaterThan(0.15)
})

test(`writes JSON bodies as a parser and canonicalize do (ONCEKEY_SEED=${seed})`, { timeout }, async () => {
  const pointers = ['/a', '/b/a', '/0/a', '/a/0/b', '/', '/__proto__', '/é']
  const exclusions = [[], ...pointers.map((_, index) => pointers.slice(index))].map((list) => ({ list, members: excludedMembers(list) }))
  const pairs = fc.tuple(bodyPairs, fc.constantFrom(...exclusions))
  await runs('JSON bodies and what a parser makes of them', pairs, full ? 100_000 : 1_000, ([pair, { list, members }]) => {
    for (const body of pair) {
      const written = Buffer.concat(canonicalBody({ body }, 'application/json', members))
      if (Buffer.compare(written, parsedCanonical(body, list)) !== 0)
        throw new Error(`without [${list}] it is written as ${shown(written)}`)
    }
  })
})

/** In batches with a breath between them, so that progress is seen. A failure names its batch's seed, which repeats it as ONCEKEY_SEED. */
async function runs<T>(what: string, values: fc.Arbitrary<T>, total: number, check: (value: T) => void): Promise<void> {
  const started = performance.now()
  const batch = Math.min(total, 10_000)
  for (let done = 0; done < total; done += batch) {
    fc.assert(
      fc.property(values, (value) => check(value)),
      { numRuns: batch, seed: seed + done / batch },
    )
    const seconds = ((performance.now() - started) / 1000).toFixed(1)
    if (full) console.log(`${(done + batch).toLocaleString('en')} of ${total.toLocaleString('en')} ${what}, ${seconds} s`)
    await setImmediate()
  }
}

const shown = (value: unknown) => JSON.stringify(value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value).slice(0, 500)
