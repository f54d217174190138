import type { ServerFacts } from '../../stores/postgres/queries/settings-read.js'
import { encodingLimits, neededSettings } from '../../stores/postgres/session-check.js'
import { type Check, fail, ok, warn } from './check.js'

/** Whether session settings leave the meaning of statements unchanged. A store also refuses the first of these at first use. */
export function sessionChecks(facts: ServerFacts): Check[] {
  return [...settingChecks(facts), encodingCheck(facts), searchPathCheck(facts)]
}

function settingChecks({ settings, overrides, database, user }: ServerFacts): Check[] {
  const name = 'session settings'
  const found = neededSettings.flatMap(({ name: setting, value, why, isRight }): Check[] => {
    const current = settings[setting]
    // Drivers set their own encoding when they connect, whatever the role has.
    const others = setting === 'client_encoding' ? [] : overrides.filter((each) => each.name === setting && !isRight(each.value))
    if (current !== undefined && !isRight(current)) {
      return [
        fail(
          name,
          `${setting} is ${current}: ${why}`,
          `alter role ${user} set ${setting} = '${value}'; and the same for each service's role`,
        ),
      ]
    }
    return others.map(({ role, value: wrong }) =>
      warn(
        name,
        `${setting} is ${wrong} for ${role === null ? `all other roles of database ${database}` : `role ${role}`}: ${why}`,
        role === null ? `alter database ${database} reset ${setting}` : `if a service runs as it: alter role ${role} reset ${setting}`,
      ),
    )
  })
  return found.length > 0 ? found : [ok(name, 'none changes what a statement means')]
}

function encodingCheck({ settings }: ServerFacts): Check {
  const encoding = settings.server_encoding ?? 'UTF8'
  const limits = encodingLimits(encoding)
  if (limits === null) return ok('encoding', `the database has ${encoding}`)
  return warn('encoding', `the database has ${encoding}: ${limits}`, 'move to a database that was created with encoding UTF8')
}

/** `pg_catalog` is searched first, unless it is named later: then a schema before it can shadow its functions and operators. */
function searchPathCheck({ settings, user }: ServerFacts): Check {
  const path = settings.search_path ?? ''
  const schemas = path.split(',').map((schema) => schema.trim().replace(/^"(.*)"$/, '$1'))
  if (schemas.indexOf('pg_catalog') < 1) return ok('search_path', `it is ${path}`)
  return warn(
    'search_path',
    `it is ${path}: functions and operators in the schemas before pg_catalog shadow those of Postgres`,
    `put pg_catalog first, or leave it out: alter role ${user} set search_path = ${schemas.filter((schema) => schema !== 'pg_catalog').join(', ')}`,
  )
}
