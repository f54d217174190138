import type { IdempotentFetch, IdempotentResponse } from './idempotent-fetch.js'

/** The subset of an instance of axios 1 (from 1.12 on) that we need. */
export interface AxiosLike {
  defaults: { adapter?: unknown; env?: unknown }
  interceptors: {
    response: { use(onFulfilled: <R>(response: R) => R, onRejected: (error: unknown) => never): unknown }
  }
}

/** What a response of axios has in addition. */
export type IdempotentAxiosResponse = Partial<Pick<IdempotentResponse, 'replayed' | 'attempts' | 'key'>>

/**
 * Lets an instance of axios send through `send`, with axios's own adapter for fetch. Its interceptors stay. Responses, also those of errors, get
 * `replayed`, `attempts` and `key`.
 */
export function idempotentAxios<Instance extends AxiosLike>(axios: Instance, send: IdempotentFetch): Instance {
  const answers = new WeakMap<object, IdempotentResponse>()
  // One function for all requests: axios never lets go of what it builds around each.
  const fetch = async (input: string | URL | Request, init?: RequestInit) => {
    const response = await send(input, init ?? {})
    if (typeof input === 'object') answers.set(input, response)
    return response
  }
  axios.defaults.adapter = 'fetch'
  axios.defaults.env = { ...(axios.defaults.env as object), fetch }

  function mark(response: { request?: unknown } | undefined): void {
    const answer = response && answers.get(response.request as object)
    if (answer) Object.assign(response, { replayed: answer.replayed, attempts: answer.attempts, key: answer.key })
  }
  axios.interceptors.response.use(
    (response) => {
      mark(response as { request?: unknown })
      return response
    },
    (error) => {
      mark((error as { response?: { request?: unknown } }).response)
      throw error
    },
  )
  return axios
}
