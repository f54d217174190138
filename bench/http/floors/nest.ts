import type { NestInterceptor } from '@nestjs/common'
import { mergeMap, of } from 'rxjs'
import { type Floor, headerPairs, replayedHeader } from './floor.js'

/** What both platforms' requests and responses have. */
interface PlatformRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly url: string
  readonly rawBody: Buffer
}

interface PlatformResponse {
  readonly statusCode: number
  status(code: number): this
  header(name: string, value: string): this
}

const json = ['content-type', 'application/json; charset=utf-8'] as const

/** An interceptor: the claim before the handler, the finish with what it returned. The platform sends texts as they are. */
export function nestFloor({ claim, finish }: Floor): NestInterceptor {
  return {
    async intercept(context, next) {
      const http = context.switchToHttp()
      const { headers, url, rawBody } = http.getRequest<PlatformRequest>()
      const response = http.getResponse<PlatformResponse>()
      const key = headers['idempotency-key'] as string
      const { answer, lease } = await claim({ key, path: url, mediaType: headers['content-type'] as string, body: rawBody })
      if (answer) {
        response.status(answer.status).header(...replayedHeader)
        for (const [name, value] of answer.headers) response.header(name, value)
        return of(Buffer.from(answer.body).toString())
      }
      return next.handle().pipe(
        mergeMap(async (value) => {
          const text = JSON.stringify(value)
          response.header(...json)
          await finish(lease, { status: response.statusCode, headers: headerPairs({ [json[0]]: json[1] }), body: Buffer.from(text) })
          return text
        }),
      )
    },
  }
}
