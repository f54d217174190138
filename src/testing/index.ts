export { armCrashPoints, isSimulatedCrash, SimulatedCrash } from '../core/crash-points.js'
export { type CrashEverywhereOptions, type CrashReport, type CrashScenario, crashAt, crashEverywhere } from './crash-everywhere.js'
export {
  type AdapterApp,
  type AdapterHarness,
  type ExerciseAdapterOptions,
  exerciseAdapter,
  type HandlerAnswer,
} from './exercise-adapter.js'
export { type ExerciseStoreOptions, exerciseStore, type StoreHarness } from './exercise-store.js'
export { manualClock } from './manual-clock.js'
