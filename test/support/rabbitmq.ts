import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { debianProgram } from './debian-program.js'
import { freePort, startProgram } from './guarded-program.js'
import { waitUntil } from './wait-until.js'

export interface RabbitmqServer {
  readonly url: string
  /** Ends it with SIGKILL. What it keeps stays. */
  kill(): Promise<void>
  /** Starts it again after a kill, on the same port, with what it has kept. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** A few seconds of work for a processor: a machine that is busy takes its time. */
const slowStartMs = 90_000

const erlang = ['asn1', 'base', 'crypto', 'eldap', 'inets', 'mnesia', 'os-mon', 'parsetools', 'public-key', 'runtime-tools', 'ssl']
const packages = ['rabbitmq-server', ...[...erlang, 'syntax-tools', 'tools', 'xmerl'].map((part) => `erlang-${part}`), 'libssl3']

/**
 * A RabbitMQ server of Debian's that cannot outlive this process. Its scripts want the system's folders and another account, so Erlang is
 * started as they would do it, with all that it writes in a folder of its own and all that it listens on at the loopback address.
 */
export async function startRabbitmq(): Promise<RabbitmqServer> {
  const program = await debianProgram('rabbitmq-server', packages)
  const libraries = join(dirname(program.path), '../lib')
  const rootdir = join(libraries, 'erlang')
  const [runtime] = foldersIn(rootdir, 'erts-')
  const [release] = foldersIn(join(libraries, 'rabbitmq/lib'), 'rabbitmq_server-')
  if (!runtime || !release) throw new Error(`${program.path} is not Debian's: this test needs the packages ${packages.join(', ')}`)

  const folder = mkdtempSync(join(tmpdir(), 'oncekey-rabbitmq-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  // No plugins: reading all of them would take longer than the rest of the start.
  mkdirSync(join(folder, 'plugins'))
  writeFileSync(join(folder, 'enabled_plugins'), '[].')

  const [port, distributionPort, mapperPort] = [await freePort(), await freePort(), await freePort()]
  const bin = join(runtime, 'bin')
  const env = {
    ...program.env,
    ...{ ROOTDIR: rootdir, BINDIR: bin, EMU: 'beam', PROGNAME: 'erl', ERL_LIBS: join(release, 'plugins'), HOME: folder },
    ...{ ERL_EPMD_PORT: String(mapperPort), ERL_EPMD_ADDRESS: '127.0.0.1', SYS_PREFIX: '' },
    RABBITMQ_NODENAME: 'oncekey@localhost',
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(distributionPort),
    RABBITMQ_HOME: release,
    RABBITMQ_BASE: folder,
    RABBITMQ_LOGS: '-',
    RABBITMQ_LOG_BASE: folder,
    RABBITMQ_MNESIA_BASE: join(folder, 'mnesia'),
    RABBITMQ_QUORUM_DIR: join(folder, 'quorum'),
    RABBITMQ_STREAM_DIR: join(folder, 'stream'),
    RABBITMQ_GENERATED_CONFIG_DIR: join(folder, 'config'),
    RABBITMQ_FEATURE_FLAGS_FILE: join(folder, 'feature_flags'),
    RABBITMQ_PLUGINS_DIR: join(folder, 'plugins'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'enabled_plugins'),
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq'),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(folder, 'advanced'),
    RABBITMQ_CONF_ENV_FILE: join(folder, 'rabbitmq-env.conf'),
    RABBITMQ_PID_FILE: join(folder, 'pid'),
  }
  // Else the server would start one itself, which would stay for ever.
  const mapper = startProgram({ path: join(bin, 'epmd'), env }, ['-address', '127.0.0.1', '-port', String(mapperPort)])
  // Without it the server ends at once.
  await waitUntil('epmd listens', () => listens(mapperPort), slowStartMs)

  async function start() {
    const boot = ['-noinput', '-s', 'rabbit', 'boot', '-boot', join(rootdir, 'bin/start_sasl'), '+W', 'w', '+B', 'i']
    const loopback = ['-kernel', 'inet_dist_use_interface', '{127,0,0,1}']
    const quiet = ['-syslog', 'logger', '[]', '-syslog', 'syslog_error_logger', 'false']
    const server = startProgram({ path: join(bin, 'erlexec'), env }, [...boot, ...loopback, ...quiet])
    await waitUntil(
      'RabbitMQ has started',
      () => {
        if (!server.isRunning()) throw new Error(`RabbitMQ did not start: ${server.output()}`)
        return server.output().includes('Server startup complete')
      },
      slowStartMs,
    )
    return server
  }

  let server = await start()
  return {
    url: `amqp://guest:guest@127.0.0.1:${port}`,
    kill: () => server.kill(),
    async start() {
      server = await start()
    },
    async stop() {
      await Promise.all([server.kill(), mapper.kill()])
      process.removeListener('exit', remove)
      remove()
    },
  }
}

async function listens(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  return once(socket, 'connect')
    .then(
      () => true,
      () => false,
    )
    .finally(() => socket.destroy())
}

function foldersIn(folder: string, prefix: string): string[] {
  try {
    const names = readdirSync(folder).filter((name) => name.startsWith(prefix))
    return names.map((name) => join(folder, name))
  } catch {
    return []
  }
}
