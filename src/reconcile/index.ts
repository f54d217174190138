export type { CompareKeys, KeyOrder, ReconcileKey } from './key-order.js'
export { type Page, pages, pagesByKey } from './pages.js'
export {
  type Difference,
  type ForBoth,
  type ReconcileCounts,
  type ReconcileOptions,
  type ReconcileSummary,
  type Reconciliation,
  reconcile,
} from './reconcile.js'
export type { Stream } from './side.js'
