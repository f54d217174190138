export { indexedDbStorage } from './storages/indexed-db-storage.js'
export { type StorageArea, webStorage } from './storages/web-storage.js'
