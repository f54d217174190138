import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bodyPairs } from '../../../test/fuzz/body-pairs.js'
import { parsedCanonical } from '../../../test/support/parsed-canonical.js'
import { canonicalBody } from './canonical-body.js'
import { CanonicalScan } from './canonical-scan.js'
import { excludedMembers } from './exclusions.js'

const long = process.env.ONCEKEY_LONG === '1'

/** The canonical form, or null if the scan refuses the text. */
function canonical(body: string | Uint8Array, workPerSlice = 1_000_000, pointers: readonly string[] = []): string | null {
  const scan = new CanonicalScan()
  scan.begin(Buffer.from(body as Uint8Array), Buffer.from(''), excludedMembers(pointers))
  while (!scan.advance(workPerSlice));
  return scan.result && Buffer.from(scan.result).toString()
}

const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`

describe('CanonicalScan', () => {
  test.each([
    // The samples of RFC 8785.
    [
      '{"numbers":[333333333.3333333,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}',
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    ],
    [
      '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\u000a":"Newline","1":"One","\\u0080":"Control\\u007f","\\ud83d\\ude02":"Smiley","\\u00f6":"Latin","\\ufb33":"Hebrew","</script>":"Browser"}',
      '{"\\n":"Newline","\\r":"Carriage Return","1":"One","</script>":"Browser","\u0080":"Control\u007f","ö":"Latin","€":"Euro Sign","😂":"Smiley","\ufb33":"Hebrew"}',
    ],
    ['{"peach":1,"péché":2,"pêche":3,"sin":4,"p":5}', '{"p":5,"peach":1,"péché":2,"pêche":3,"sin":4}'],
    ['{"10":3,"9":4,"":6,"__proto__":{"toJSON":7}}', '{"":6,"10":3,"9":4,"__proto__":{"toJSON":7}}'],
    ['{"\\"":1,"!":2,"#":3,"\\\\":4,"[":5,"]":6,"\\"\\"":7}', '{"!":2,"\\"":1,"\\"\\"":7,"#":3,"[":5,"\\\\":4,"]":6}'],
    ['{"a\\u0001":1,"a":2,"a\\u001f":3,"a\\t":4,"a\\u0010":5,"a ":6}', '{"a":2,"a\\u0001":1,"a\\t":4,"a\\u0010":5,"a\\u001f":3,"a ":6}'],
    ['[-0,0.0,-0.00,1.0,10.50,100,-5,0.000001,0.0000001,0.12345678]', '[0,0,0,1,10.5,100,-5,0.000001,1e-7,0.12345678]'],
    ['[9007199254740992,1e22,1E+2,123456789012345.0,5e-324,0e999999999999]', '[9007199254740992,1e+22,100,123456789012345,5e-324,0]'],
    [' [ true , false , null , { } , [ ] , "" ]\r\n\t', '[true,false,null,{},[],""]'],
    ['\ufeff1', '1'],
  ])('writes %s', (text, expected) => {
    expect(canonical(text)).toBe(expected)
    expect(canonical(text, 1)).toBe(expected)
  })

  test.each([
    // What `JSON.parse` would change.
    ['9007199254740993'],
    ['-9007199254740993.0'],
    ['0.1000000000000000055511151231257827'],
    ['1e400'],
    ['1e-400'],
    ['[1,[2,{"a":12345678901234567890}]]'],
    ['{"a":1,"a":1}'],
    ['{"a":1,"b":2,"a":3}'],
    ['{"a":1, "\\u0061" : 2}'],
    ['{"":1,"":2}'],
    ['{"__proto__":1,"__proto__":2}'],
    ['[{"a":{"x":[]},"a":1}]'],
    // What has no UTF-8 form.
    ['"\\ud800"'],
    ['["\\ude00\\ud83d"]'],
    ['{"\\ud800":1}'],
    // What is not JSON.
    [''],
    [' '],
    ['\ufeff\ufeff1'],
    ['01'],
    ['-'],
    ['-01'],
    ['1.'],
    ['.5'],
    ['1.e5'],
    ['1e'],
    ['1e+'],
    ['+1'],
    ['1 1'],
    ['tru'],
    ['nulL'],
    ['truefalse'],
    ['"\t"'],
    ['"\\x"'],
    ['"\\u00g0"'],
    ['"\\u00'],
    ['"\\'],
    ['"a'],
    ['[1,]'],
    ['[,1]'],
    ['[1}'],
    ['{"a":1]'],
    ['{"a":1,}'],
    ['{"a"}'],
    ['{a:1}'],
    ['{"a":1'],
    ['{'],
    ['['],
    [']'],
    ['[1]]'],
    ['\u00a01'],
  ])('refuses %s', (text) => {
    expect(canonical(text)).toBe(null)
    expect(canonical(text, 1)).toBe(null)
  })

  test('takes 256 levels and numbers of 400 characters, and no more', () => {
    expect(canonical(nested(256))).toBe(nested(256))
    expect(canonical(nested(257))).toBe(null)
    expect(canonical(`1${'0'.repeat(308)}`)).toBe('1e+308')
    expect(canonical(`1.${'0'.repeat(398)}`)).toBe('1')
    expect(canonical(`1.${'0'.repeat(399)}`)).toBe(null)
  })

  test('grows with numbers that are longer in their canonical spelling', () => {
    expect(canonical(`[${Array(5_000).fill('1e20')}]`)).toBe(`[${Array(5_000).fill('100000000000000000000')}]`)
  })

  test('puts large objects in order, whole or in slices', () => {
    const names = Array.from({ length: 3_000 }, (_, index) => `${(index * 7_919) % 3_000}`)
    const expected = `{${[...names].sort().map((name) => `"${name}":[${name}]`)}}`
    const text = `{${names.map((name) => `"${name}":[${name}]`)}}`
    for (const work of [1_000_000, 1_000, 1]) expect(canonical(text, work)).toBe(expected)
    expect(canonical(`${text.slice(0, -1)},"17":1}`, 1_000)).toBe(null)
    const excluded = Array.from({ length: 40 }, (_, index) => `/${index}`)
    expect(canonical(`{"a":1,${excluded.map((pointer) => `"${pointer.slice(1)}":1`)}}`, 10, excluded)).toBe('{"a":1}')
  })

  test('reads on after an object whose members were out of order until one came twice', () => {
    const written = (body: string) => Buffer.concat(canonicalBody({ body }, 'application/json', [])).toString()
    expect(written('{"b":1,"a":2,"c":3}')).toBe('body:json:{"a":2,"b":1,"c":3}')
    expect(written('{"c":1,"d":2,"c":3}')).toBe('body:bytes:{"c":1,"d":2,"c":3}')
    expect(written('{"c":1,"b":2,"a":3}')).toBe('body:json:{"a":3,"b":2,"c":1}')
  })

  test('leaves excluded members out, with the halves of surrogate pairs in them, but counts them', () => {
    const excluding = (text: string) => canonical(text, 1, ['/a', '/b/0/c', '/b/1', '/d/e'])
    expect(excluding('{"d":{"e":1},"b":[{"c":1,"a":2},2],"a":"\\ud800"}')).toBe('{"b":[{"a":2},2],"d":{}}')
    expect(excluding('{"b":{"0":{"c":1},"1":2}}')).toBe('{"b":{"0":{}}}')
    expect(excluding('[{"a":1}]')).toBe('[{"a":1}]')
    expect(excluding('{"a":1,"a":2}')).toBe(null)
    expect(excluding('{"a":1e400}')).toBe(null)
  })

  test('writes what a parser and canonicalize write, in slices of any size', () => {
    const pointers = fc.constantFrom([], ['/a'], ['/a', '/b/a', '/0/a', '/a/0/b', '/', '/a/b'], ['/__proto__', '/é', '/a/a/a'])
    fc.assert(
      fc.property(bodyPairs, fc.integer({ min: 1, max: 60 }), pointers, (bodies, work, excluded) => {
        for (const body of bodies) {
          const expected = parsedCanonical(body, excluded)
          const given = canonicalBody({ body }, 'application/json', excludedMembers(excluded))
          expect(Buffer.compare(Buffer.concat(given), expected)).toBe(0)
          const form = expected.toString('latin1', 5, 9)
          if (form === 'text' || body.length > 10_000) continue
          expect(canonical(body, work, excluded)).toBe(form === 'json' ? expected.toString('utf8', 10) : null)
        }
      }),
      { numRuns: long ? 20_000 : 1_500 },
    )
  })

  test('puts names of any characters in order', () => {
    const unit = fc.oneof(
      fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
      fc.constantFrom(...'\b\t\n\f\r\0\x01\x0f\x10\x1f "!#/[\\]\x7f\u07ff\u0800\ud7ff\ue000\ufb33\uffff', '\u{10000}', '😀', '\u{10ffff}'),
    )
    const names = fc.uniqueArray(fc.string({ unit, maxLength: 3 }), { maxLength: 60 })
    fc.assert(
      fc.property(names, (list) => {
        const text = `{${list.map((name, index) => `${JSON.stringify(name)}:${index}`)}}`
        expect(canonical(text, 50)).toBe(parsedCanonical(text).toString('utf8', 10))
      }),
      { numRuns: long ? 5_000 : 500 },
    )
  })
})
