// The recipe for AWS Lambda, word for word the one that test/serverless/ runs.
import { expect, test } from 'vitest'
import { read } from './pages.js'

test('the page has the recipe that is tested', () => {
  expect(read('docs/guide/serverless.md')).toContain(`\`\`\`ts\n${read('test/serverless/fetch-lambda.ts')}\`\`\`\n`)
})
