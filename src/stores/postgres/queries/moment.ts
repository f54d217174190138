/**
 * Moments travel as text in UTC, with microseconds. The text that Postgres makes of a timestamp by itself depends on the session's DateStyle
 * and TimeZone; this one does not, and every DateStyle reads it alike. Such texts sort like their moments.
 */
export function momentText(expression: string): string {
  const moment = `(${expression})`
  return `(case when isfinite(${moment}) then to_char(${moment} at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') else ${moment}::text end)`
}

/** A parameter with such a text, as a moment. */
export function momentOf(parameter: string): string {
  return `(${parameter}::text::timestamp at time zone 'UTC')`
}
