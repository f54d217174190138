export { fileStorage } from './storages/file-storage.js'
