/** What the statements of each flow are known by. Not more of their text than makes them what they are. */
export const statements = {
  claim: /insert into "oncekey"\.keys/,
  heartbeat: /update "oncekey"\.keys as key\s+set locked_until = /,
  write: /insert into effects/,
  advance: /update "oncekey"\.keys as key set recovery_point = /,
  commit: /^Q....commit/s,
  finish: /set state = \S+ locked_until = null/,
  take: /"oncekey"\.jobs as job set token = \$/,
  read: /, job\.payload\s+from unnest/,
  settle: /'delivered'/,
  turn: /name = 'sweep' and \(holder/,
  takeBack: /case key\.after_failure when 'store' then 'failed' when 'park'/,
  waiting: /request is not null/,
  takeOver: /fence = key\.fence \+ 1, owner = /,
  reap: /delete from "oncekey"\.keys/,
  timeOut: /key\.waiting and key\.expires_at <= /,
}
export type Statement = keyof typeof statements
