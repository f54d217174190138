import { script } from './script.js'

/** The key and the time. */
export const keyLook = script('return seen(0)')
