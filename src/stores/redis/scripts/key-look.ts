import { script } from './script.js'

/** The key as it is, and the time. */
export const keyLook = script('return seen(0)')
