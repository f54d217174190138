import type { TestDatabase } from '../support/postgres/database.js'

/** An error of which there is no hope, so that nobody waits out the lease. */
export const hopeless = 'P0001'
export const fullDisk = '53100'

/** Makes the server refuse to store answers, with its own errors, raised where they would be: at the write. */
export async function refusals({ pool, ensure }: TestDatabase) {
  await ensure(`
    create table if not exists refusals (tenant text primary key, errcode text not null);
    create sequence if not exists refused; -- counts although the statement is rolled back
    create or replace function refuse_finish() returns trigger language plpgsql as $$
      declare refusal text := (select errcode from refusals where refusals.tenant = new.tenant);
      begin
        if refusal is not null and new.state = 'complete' then
          perform nextval('refused');
          raise exception 'the test refuses this finish' using errcode = refusal;
        end if;
        return new;
      end $$;
    create or replace trigger refuse_finish before insert or update on oncekey.keys for each row execute function refuse_finish();`)
  return {
    /** From now on answers of this tenant cannot be stored. */
    async refuse(tenant: string, errcode: string) {
      await pool.query('insert into refusals values ($1, $2)', [tenant, errcode])
    },
    async allow(tenant: string) {
      await pool.query('delete from refusals where tenant = $1', [tenant])
    },
    /** How many were refused so far. */
    async count(): Promise<number> {
      const { rows } = await pool.query('select case when is_called then last_value::integer else 0 end as count from refused')
      return rows[0].count
    },
  }
}
