import type { KeptEntry, PendingRequest, PendingStorage } from '../pending-request.js'

/** The subset of IndexedDB that we need. */
interface Asked<T> {
  readonly result: T
  readonly error: unknown
  onsuccess: (() => void) | null
  onerror: (() => void) | null
}
interface Opening extends Asked<Database> {
  onupgradeneeded: (() => void) | null
}
interface Database {
  createObjectStore(name: string, options: { keyPath: string }): unknown
  transaction(name: string, mode: 'readonly' | 'readwrite', options: { durability: 'strict' }): Transaction
  close(): void
}
interface Transaction {
  readonly error: unknown
  objectStore(name: string): ObjectStore
  oncomplete: (() => void) | null
  onabort: (() => void) | null
}
interface ObjectStore {
  put(value: unknown): Asked<unknown>
  delete(id: string): Asked<unknown>
  getAllKeys(): Asked<string[]>
  get(id: string): Asked<PendingRequest | undefined>
}

const table = 'pending'

/** IndexedDB, for bodies that are too large for `localStorage`, and for workers, which have none. `name` is the database's. */
export function indexedDbStorage(name = 'oncekey'): PendingStorage {
  function open(): Promise<Database> {
    const { indexedDB } = globalThis as unknown as { indexedDB: { open(name: string, version: number): Opening } }
    const asked = indexedDB.open(name, 1)
    asked.onupgradeneeded = () => asked.result.createObjectStore(table, { keyPath: 'id' })
    return new Promise((resolve, reject) => {
      asked.onsuccess = () => resolve(asked.result)
      asked.onerror = () => reject(asked.error)
    })
  }

  async function transact<T>(mode: 'readonly' | 'readwrite', act: (store: ObjectStore) => Asked<T>): Promise<T> {
    const database = await open()
    try {
      return await new Promise((resolve, reject) => {
        // Browsers answer before the bytes are on the disk unless they are asked not to.
        const transaction = database.transaction(table, mode, { durability: 'strict' })
        const asked = act(transaction.objectStore(table))
        transaction.oncomplete = () => resolve(asked.result)
        transaction.onabort = () => reject(transaction.error)
      })
    } finally {
      database.close()
    }
  }

  return {
    keepsBytes: true,
    put: async (request) => void (await transact('readwrite', (store) => store.put(request))),
    delete: async (id) => void (await transact('readwrite', (store) => store.delete(id))),
    async list() {
      const entries: KeptEntry[] = []
      // One by one: `getAll()` fails for all when the browser has lost the file of one.
      for (const id of await transact('readonly', (store) => store.getAllKeys())) {
        const entry = await transact('readonly', (store) => store.get(id)).catch((error: unknown) => ({ id, error }))
        // Another tab may have removed it since.
        if (entry) entries.push(entry)
      }
      return entries
    },
  }
}
