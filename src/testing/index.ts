export { type ExerciseStoreOptions, exerciseStore, type StoreHarness } from './exercise-store.js'
export { manualClock } from './manual-clock.js'
