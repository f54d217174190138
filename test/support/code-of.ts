import { isOncekeyError } from '../../src/core/errors.js'

/** The code of the error that `act` throws, the error itself if it is not one of ours, or null if it throws nothing. */
export function codeOf(act: () => unknown): unknown {
  try {
    act()
    return null
  } catch (error) {
    return isOncekeyError(error) ? error.code : error
  }
}
