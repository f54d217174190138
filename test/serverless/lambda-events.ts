/** Requests as AWS hands them to a Lambda function: the members that adapters read. */
export const sources = ['API Gateway REST (1.0)', 'API Gateway HTTP or function URL (2.0)', 'Application Load Balancer'] as const

export type Source = (typeof sources)[number]

export interface Sent {
  readonly key?: string | null
  readonly tenant: string
  readonly path?: string
  readonly contentType?: string
  readonly body?: string | Uint8Array
}

export function eventOf(
  source: Source,
  { key = 'key-1', tenant, path = '/work', contentType = 'application/json', body = '{"item":"tea"}' }: Sent,
) {
  const headers: Record<string, string> = { host: 'api.example.com', 'content-type': contentType, 'x-tenant': tenant }
  if (key !== null) headers['idempotency-key'] = key
  const isBase64Encoded = typeof body !== 'string'
  const sent = { body: isBase64Encoded ? Buffer.from(body).toString('base64') : body, isBase64Encoded }
  if (source === 'API Gateway HTTP or function URL (2.0)') {
    const http = { method: 'POST', path, protocol: 'HTTP/1.1', sourceIp: '192.0.2.1', userAgent: 'test' }
    const requestContext = { stage: '$default', http, requestId: 'r', domainName: 'api.example.com' }
    return { version: '2.0', routeKey: '$default', rawPath: path, rawQueryString: '', headers, requestContext, ...sent }
  }
  // These name headers as the client wrote them, and not in lower case.
  const written = Object.fromEntries(Object.entries(headers).map(([name, value]) => [capitalised(name), value]))
  const old = { httpMethod: 'POST', path, queryStringParameters: null, ...sent }
  if (source === 'Application Load Balancer') {
    return { ...old, queryStringParameters: {}, headers, requestContext: { elb: { targetGroupArn: 'arn:aws:elasticloadbalancing' } } }
  }
  const multiValueHeaders = Object.fromEntries(Object.entries(written).map(([name, value]) => [name, [value]]))
  const requestContext = {
    stage: 'prod',
    resourcePath: '/{proxy+}',
    requestId: 'r',
    identity: { sourceIp: '192.0.2.1' },
    httpMethod: 'POST',
  }
  return { ...old, version: '1.0', headers: written, multiValueHeaders, requestContext, resource: '/{proxy+}' }
}

const capitalised = (name: string) => name.replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase())

/** What a function hands back to AWS. */
interface LambdaResult {
  readonly statusCode: number
  readonly headers?: Readonly<Record<string, unknown>>
  readonly multiValueHeaders?: Readonly<Record<string, readonly unknown[]>>
  readonly body?: string
  readonly isBase64Encoded?: boolean
}

export type LambdaHandler = (event: object, context: object) => Promise<LambdaResult>

export interface Answered {
  readonly status: number
  readonly header: (name: string) => string | undefined
  readonly body: Buffer
}

export async function invoke(handler: LambdaHandler, event: object): Promise<Answered> {
  // As JSON: that is how it arrives.
  const {
    statusCode,
    headers = {},
    multiValueHeaders = {},
    body = '',
    isBase64Encoded,
  } = await handler(JSON.parse(JSON.stringify(event)), {})
  const values = Object.entries({ ...headers, ...multiValueHeaders }).map(([name, value]) => [name.toLowerCase(), String(value)] as const)
  return {
    status: statusCode,
    header: (name) => values.find(([given]) => given === name)?.[1],
    body: Buffer.from(body, isBase64Encoded ? 'base64' : 'utf8'),
  }
}
