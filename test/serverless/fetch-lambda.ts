interface LambdaEvent {
  rawPath: string
  rawQueryString: string
  headers: Record<string, string>
  cookies?: string[]
  requestContext: { domainName: string; http: { method: string } }
  body?: string
  isBase64Encoded: boolean
}

export function lambdaOf(handler: (request: Request) => Promise<Response>) {
  return async ({ rawPath, rawQueryString, headers, cookies, requestContext, body, isBase64Encoded }: LambdaEvent) => {
    const request = new Request(`https://${requestContext.domainName}${rawPath}?${rawQueryString}`, {
      method: requestContext.http.method,
      headers: cookies ? { ...headers, cookie: cookies.join('; ') } : headers,
      body: body === undefined ? null : Buffer.from(body, isBase64Encoded ? 'base64' : 'utf8'),
    })
    const response = await handler(request)
    const { 'set-cookie': _, ...rest } = Object.fromEntries(response.headers)
    return {
      statusCode: response.status,
      headers: rest,
      cookies: response.headers.getSetCookie(),
      body: Buffer.from(await response.arrayBuffer()).toString('base64'),
      isBase64Encoded: true,
    }
  }
}
