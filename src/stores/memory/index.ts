export { memoryStore } from './memory-store.js'
