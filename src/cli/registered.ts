import type { Command } from 'commander'
import type { ExitCode } from './exit-codes.js'
import type { World } from './world.js'

/** How a command comes into the program: it says how it ended by calling `done`. */
export type Registered = (world: World, done: (exitCode: ExitCode) => void) => Command
