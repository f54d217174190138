import type { Command } from 'commander'
import type { ExitCode } from './exit-codes.js'
import type { World } from './world.js'

/** Registers a command, which reports its exit code by calling `done`. */
export type Registered = (world: World, done: (exitCode: ExitCode) => void) => Command
