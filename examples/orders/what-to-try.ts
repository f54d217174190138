/** The lines to try it without the page. */
export function whatToTry(url: string): string {
  const body = (item: string) => `-H 'Content-Type: application/json' -d '{"item":"${item}","cents":1250,"customer":"ada@example.com"}'`
  const order = (item: string, key: string) => `${url}/orders -H 'Idempotency-Key: ${key}' ${body(item)}`
  return `
Ready. Open ${url} and press the buttons, or try it in another terminal:

  an order             curl -i ${order('tea', 'order-1')}
  the same, again      (the same line: same answer, byte for byte, with Idempotent-Replayed: true)
  another body         curl -i ${order('coffee', 'order-1')}
  without oncekey      curl -i ${url}/naive/orders ${body('tea')}
  the story of a key   curl ${url}/keys/order-1
  orders               curl ${url}/orders

Send one order fifty times at once: one runs, the others are told to wait.

  seq 50 | xargs -P 50 -I{} curl -s -o /dev/null -w '%{http_code} ' ${order('tea', 'order-2')}

Ctrl-C stops it. Kill any of its processes in the middle of an order: it is started again, and the order goes on.
`
}
