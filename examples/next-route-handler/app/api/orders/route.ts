import { serve } from 'oncekey/fetch'
import { createOrder, pool } from '../../../orders.js'

export const POST = serve(createOrder, { tenant: 'single' })

export async function GET() {
  const { rows } = await pool.query('select id, item, charge from orders')
  return Response.json(rows)
}
