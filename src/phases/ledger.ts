import type { Answer } from '../core/answer.js'
import { crashPoint, isSimulatedCrash } from '../core/crash-points.js'
import { type ErrorCode, OncekeyError } from '../core/errors.js'
import { checkName } from '../core/key.js'
import { storableText } from '../core/storable-text.js'
import type { JobRecord, StepHistory, StepKind, StepRecord, StepStore } from '../core/store.js'
import { outcomeUnknown } from '../core/system-answers.js'
import { type Held, ranForMs, whileCertain } from '../engine/held.js'
import { leaseLost } from '../engine/lease-keeper.js'
import { patiently } from '../engine/patience.js'
import { tellWorkers } from './tell-workers.js'
import { TransactionPart } from './transaction-part.js'

/** How a run ended, whatever the body does afterwards. Once it has, every further step throws `error`. */
export type RunEnd =
  | { readonly kind: 'finished'; readonly answer: Answer; readonly error: unknown }
  /** `lost`: the key has another holder, or the store could not be told what happened: nothing more may be stored. */
  | { readonly kind: 'parked' | 'lost' | 'crashed'; readonly error: unknown }
  /** As if the body had thrown it. */
  | { readonly kind: 'failed'; readonly error: unknown }

type StoredStep = StepHistory['steps'][number]

interface Staging<Tx> {
  readonly tx: Tx
  readonly jobs: { readonly job: JobRecord; readonly part: TransactionPart | undefined }[]
  /** The work has returned, and the jobs are on their way. */
  isSealed: boolean
  /** Why the phase fails, if a job came after that. */
  late: StagedLate | null
}

/** The user's work in the transaction of a phase. */
interface StagedWork<Tx, W> {
  readonly tx: Tx
  readonly part: TransactionPart
  work(tx: Tx): Promise<W> | W
}

/** The phase throws it as well, so a promise of ours that rejects with it may go unhandled. */
export class StagedLate extends OncekeyError {
  constructor(job: string, phase: string) {
    super(
      'stage_outside_phase',
      `The job '${job}' was staged after the work of '${phase}' had returned, so nothing of '${phase}' was committed: await every stage and ` +
        'every query before the work returns.',
    )
  }
}

/**
 * The memory of one run: what earlier attempts committed, what this one has done, and what no commit has carried yet. It sees to it
 * that there is one step at a time, that names are used once, and that an end is an end.
 */
export class Ledger<Tx> {
  readonly held: Held
  readonly store: StepStore<Tx>
  /** As the store has it. */
  recoveryPoint: string | null
  /** The call that is committed as an intent without a result, if there is one. */
  inDoubt: string | null
  /** Results of calls that travel with the next commit. */
  uncommitted: StepRecord[] = []
  /** Of the phase that is open. */
  #staging: Staging<Tx> | null = null
  /** Whether the last try of the phase has staged any. */
  #hasStaged = false
  readonly #stored: Map<string, StoredStep>
  readonly #visited = new Set<string>()
  readonly #lastCommitAgeMs: number
  readonly #readAt: number
  #nextPosition: number
  #open: { readonly name: string; readonly closed: Promise<void> } | null = null
  #end: RunEnd | null = null

  constructor(held: Held, store: StepStore<Tx>, recoveryPoint: string | null, history: StepHistory) {
    this.held = held
    this.store = store
    this.recoveryPoint = recoveryPoint
    this.inDoubt = history.steps.find(({ kind }) => kind === 'intent')?.name ?? null
    this.#stored = new Map(history.steps.map((step) => [step.name, step]))
    this.#nextPosition = history.steps.length
    this.#lastCommitAgeMs = history.lastCommitAgeMs
    this.#readAt = held.parts.clock.monotonic()
  }

  get end(): RunEnd | null {
    return this.#end
  }

  /** How long ago the last commit before this attempt was. */
  lastCommitAgeMs(): number {
    return this.#lastCommitAgeMs + this.held.parts.clock.monotonic() - this.#readAt
  }

  /** Runs a step by its name, with what earlier attempts left of it. */
  async step<T>(name: string, make: (stored: StoredStep | undefined) => Promise<T>): Promise<T> {
    checkName('step_name_invalid', 'name of the step', name)
    return this.alone(name, async () => {
      if (this.#visited.has(name)) throw this.#fail(nameRepeated(name))
      this.#visited.add(name)
      const stored = this.#stored.get(name)
      if (!stored || stored.kind === 'cleared') await this.parkIfStepsAreUnknown(`the step '${name}'`)
      return make(stored?.kind === 'cleared' ? undefined : stored)
    })
  }

  /** Lets one thing happen at a time, and nothing after the end. */
  async alone<T>(name: string, make: () => Promise<T>): Promise<T> {
    if (this.#end) throw this.#end.error
    if (this.#open) {
      throw new OncekeyError(
        'steps_overlap',
        `'${name}' was started while '${this.#open.name}' is under way. Await each step before the next: no call may be made inside a phase.`,
      )
    }
    let close = () => {}
    this.#open = {
      name,
      closed: new Promise((resolve) => {
        close = resolve
      }),
    }
    try {
      return await make()
    } catch (error) {
      if (isSimulatedCrash(error)) this.#end ??= { kind: 'crashed', error }
      throw error
    } finally {
      this.#open = null
      close()
    }
  }

  /** The name of the step that is under way, after it has ended: a release waits for an open call and carries its result. */
  async openStep(): Promise<string | null> {
    const open = this.#open
    await open?.closed
    return open?.name ?? null
  }

  /** Runs the work of a phase, then our write with the jobs that the work staged. Throws first if the lease is lost. */
  async stagingIn<W, T>({ tx, part, work }: StagedWork<Tx, W>, write: (worked: W, jobs: readonly JobRecord[]) => Promise<T>): Promise<T> {
    this.assertHeld()
    const staging: Staging<Tx> = { tx, jobs: [], isSealed: false, late: null }
    this.#staging = staging
    try {
      const worked = await part.work(() => work(tx))
      staging.isSealed = true
      // A `within` that was rolled back has taken its jobs along.
      const jobs = staging.jobs.filter(({ part }) => !part?.isUndoneIn(tx)).map(({ job }) => job)
      const written = await write(worked, jobs)
      if (staging.late) throw staging.late
      return written
    } finally {
      this.#staging = null
      this.#hasStaged = staging.jobs.length > 0
    }
  }

  /**
   * Adds a job to the phase that is open in `tx`. A job staged after the work has returned is too late for our write, and the user's writes
   * must not be committed without it, so the phase fails.
   */
  stage(tx: Tx, name: string, make: () => JobRecord): void {
    const staging = this.#staging
    if (staging?.tx !== tx) {
      throw new OncekeyError(
        'stage_outside_phase',
        `The job '${name}' was not staged: pass the transaction of the phase or finish that is open, inside of it, and await it.`,
      )
    }
    if (staging.isSealed) {
      staging.late ??= new StagedLate(name, this.#open?.name ?? 'the phase')
      throw staging.late
    }
    const part = TransactionPart.current()
    if (part?.isUndoneIn(tx)) {
      throw new OncekeyError(
        'stage_outside_phase',
        `The job '${name}' was not staged: the within() that it belongs to was rolled back. Await every stage before its work returns.`,
      )
    }
    staging.jobs.push({ job: make(), part })
  }

  /** To be called after the commit: the relay of this process need not look for them. */
  tellStaged(): void {
    if (this.#hasStaged) tellWorkers(this.held.parts.onStaged)
    this.#hasStaged = false
  }

  /** Steps that were committed but that the code does not have any more must not be passed over in silence. */
  async parkIfStepsAreUnknown(next: string): Promise<void> {
    const unknown = [...this.#stored.values()].filter(({ name, kind }) => kind !== 'cleared' && !this.#visited.has(name))
    if (unknown.length === 0) return
    const names = unknown.map(({ name }) => `'${name}'`).join(', ')
    await this.park(
      `the run came to ${next}, but ${names} was committed by an earlier attempt and is not in the code any more`,
      'step_unknown',
    )
  }

  /** Gives up before the next side effect rather than after it, when the lease is gone or may be. */
  assertHeld(): void {
    const { holding, parts } = this.held
    if (holding.isLost() || parts.clock.monotonic() >= holding.certainUntil()) this.lose()
    if (holding.signal.aborted) throw holding.signal.reason
  }

  /** Ends the run with an error that no catch in the body can turn into an answer. */
  #fail(error: OncekeyError): OncekeyError {
    this.#end = { kind: 'failed', error }
    return error
  }

  lose(): never {
    this.#end = { kind: 'lost', error: leaseLost() }
    this.held.holding.tellLost()
    throw this.#end.error
  }

  finish(answer: Answer): void {
    this.#end = {
      kind: 'finished',
      answer,
      error: new OncekeyError('steps_overlap', 'The run has finished: no step may follow run.finish().'),
    }
  }

  newStep(name: string, kind: StepKind, result: string | null): StepRecord {
    const position = this.#stored.get(name)?.position ?? this.#nextPosition++
    return { name, position, kind, result }
  }

  /** Commits steps at once, in a statement of their own, and everything that waited for the next commit with them. */
  async commit(steps: readonly StepRecord[], to: string): Promise<void> {
    const all = [...this.uncommitted, ...steps]
    if (all.length === 0) return
    const { lease, parts } = this.held
    const advance = { lease, from: this.recoveryPoint, to, steps: all, jobs: [] }
    crashPoint(`record ${to}:before`)
    const result = await this.#orEnd(
      patiently((limit) => this.store.stepAdvance(advance, undefined, limit), whileCertain(this.held), parts),
    )
    crashPoint(`record ${to}:after`)
    if (result === 'lost') this.lose()
    const last = all.at(-1)
    this.inDoubt = last?.kind === 'intent' ? last.name : null
    this.committed(to)
  }

  /** What the store could not be told must not be papered over by an answer: the run ends, and a later attempt finds the truth. */
  async #orEnd<T>(write: Promise<T>): Promise<T> {
    try {
      return await write
    } catch (error) {
      this.#end = { kind: 'lost', error }
      throw error
    }
  }

  /** Everything up to here is in the store. */
  committed(recoveryPoint: string): void {
    this.recoveryPoint = recoveryPoint
    this.uncommitted = []
  }

  /** Stops the key for a person. Ends the run, and always throws. */
  async park(reason: string, code: ErrorCode = 'key_parked', step?: string): Promise<never> {
    const { lease, parts, claim } = this.held
    const error = new OncekeyError(code, `The key is parked for a person to look at: ${reason}.`)
    const park = { lease, answer: outcomeUnknown, reason: storableText(reason), step, steps: this.uncommitted }
    crashPoint('park:before')
    this.held.holding.ending()
    const result = await this.#orEnd(patiently((limit) => parts.store.keyPark(park, limit), whileCertain(this.held), parts))
    crashPoint('park:after')
    if (result === 'lost') this.lose()
    this.#end = { kind: 'parked', error }
    parts.report(claim, { type: 'parked', error, durationMs: ranForMs(this.held) })
    throw error
  }
}

const nameRepeated = (name: string) =>
  new OncekeyError(
    'step_name_repeated',
    `The step name '${name}' is used twice in one run, and the second step was not done. Give each step its own name; in a loop, include ` +
      'something unique to the iteration.',
  )
