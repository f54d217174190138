import { endOfTurn } from '../engine/end-of-turn.js'

/**
 * The requests of a layer that are under way. One that is not alone waits for the others that this turn of the event loop brings: from there to the
 * claim they take the same way, and one behind the other they find the processor's caches warm (`docs/decisions/0009`).
 */
export class Arrivals {
  #underWay = 0

  /** What to wait for. */
  enter(): Promise<void> | undefined {
    this.#underWay += 1
    return this.#underWay > 1 ? endOfTurn() : undefined
  }

  leave(): void {
    this.#underWay -= 1
  }
}
