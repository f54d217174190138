#!/usr/bin/env node
import process from 'node:process'
import { run } from './program.js'
import { realWorld } from './world.js'

// `oncekey list | head` closes our output early, which is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit(process.exitCode ?? 0)
})

process.exitCode = await run(realWorld(), process.argv.slice(2))
