import type { Bar } from '../harness/bars.js'
import type { Group } from '../harness/contender.js'
import { added, ratio, within } from '../harness/report.js'
import { peerName } from './http.js'
import { plainNames } from './plain-statements.js'
import { type Framework, frameworks, type HttpMode, httpTitle, loneTitle, serviceName } from './titles.js'

const oncekeyIn = (framework: Framework) => serviceName(framework, 'oncekey')
const bareIn = (framework: Framework) => serviceName(framework, 'bare')
const floorOf = (framework: Framework) => serviceName(framework, 'floor')

const find = (groups: readonly Group[], title: string) => groups.find((group) => group.title === title)

/** Requests a second beside the bare framework. */
export function requestBars(groups: readonly Group[]): Bar[] {
  const beside = (framework: Framework, mode: HttpMode, connections: number, least: number): Bar => {
    const title = httpTitle(framework, mode, connections)
    const measured = ratio(find(groups, title), oncekeyIn(framework), bareIn(framework))
    return { what: `${title}: with oncekey / bare`, least, measured }
  }
  return [
    beside('fastify', 'new', 64, 0.65),
    beside('fastify', 'new', 256, 0.9),
    ...[64, 256].map((connections) => beside('express', 'new', connections, 0.9)),
    ...(['fastify', 'express'] as const).flatMap((framework) =>
      [64, 256].map((connections) => beside(framework, 'replay', connections, 0.95)),
    ),
    ...[64, 256].map((connections) => {
      const title = httpTitle('fastify', 'replay', connections)
      const cached = serviceName('fastify', 'oncekey with an answer cache')
      return {
        what: `${title}: with oncekey and an answer cache / bare`,
        least: 0.95,
        measured: ratio(find(groups, title), cached, bareIn('fastify')),
      }
    }),
  ]
}

/** Requests a second beside other libraries: "level", and "clearly ahead". */
export function peerBars(groups: readonly Group[]): Bar[] {
  return (
    [
      [64, 1],
      [256, 1.1],
    ] as const
  ).flatMap(([connections, least]) =>
    (
      [
        ['fastify', peerName('fastify', '@node-idempotency/core', 'in memory')],
        ['fastify', peerName('fastify', '@node-idempotency/core', 'AOF always')],
        ['express', peerName('express', 'express-idempotency', 'in memory')],
      ] as const
    ).map(([framework, peer]) => {
      const title = httpTitle(framework, 'new', connections)
      const what = `${title}: with oncekey / ${peer.slice(frameworks[framework].length + 2)}`
      return { what, least, measured: ratio(find(groups, title), oncekeyIn(framework), peer) }
    }),
  )
}

/** What a framework may cost above its floor. */
const aboveFloor = 20

/** Node's own CPU of a request, beside the framework's bare handler and its floor. */
export function adapterBars(groups: readonly Group[]): Bar[] {
  const inGroup = (framework: Framework, mode: HttpMode) => find(groups, httpTitle(framework, mode, 64))
  const addedTo = (framework: Framework, other: string, mode: HttpMode = 'new') =>
    added(inGroup(framework, mode), oncekeyIn(framework), other, 'clientCpuMicros')
  const newKey = (framework: Framework) => `${frameworks[framework]}, new keys: Node CPU µs`

  /** So much, or what the floor takes and 20 µs, whichever is larger. */
  const overBare = (framework: Framework, limit: number): Bar => {
    const floor = added(inGroup(framework, 'new'), floorOf(framework), bareIn(framework), 'clientCpuMicros')
    const most = Math.max(limit, Math.round((floor?.median ?? 0) + aboveFloor))
    return { what: `${newKey(framework)} above bare`, most, measured: addedTo(framework, bareIn(framework)) }
  }
  const overPlatform = (framework: Framework, platform: Framework): Bar => {
    const most = Math.round((addedTo(platform, bareIn(platform))?.median ?? Number.NaN) + 10)
    const measured = Number.isNaN(most) ? null : addedTo(framework, bareIn(framework))
    return { what: `${newKey(framework)} above bare (its platform's, and 10)`, most, measured }
  }
  const replayed = (framework: Framework) => `${frameworks[framework]}, replays: Node CPU`
  const cheaper = (framework: Framework): Bar => ({
    what: `${replayed(framework)} / that of the handler`,
    most: 1,
    measured: ratio(inGroup(framework, 'replay'), oncekeyIn(framework), bareIn(framework), 'clientCpuMicros'),
  })
  const near = (framework: Framework): Bar => ({
    what: `${replayed(framework)} µs above bare`,
    most: 25,
    measured: addedTo(framework, bareIn(framework), 'replay'),
  })

  return [
    { what: `${newKey('fastify')} above the floor`, most: aboveFloor, measured: addedTo('fastify', floorOf('fastify')) },
    {
      what: 'Fastify, new keys: requests a second / floor',
      least: 0.85,
      measured: ratio(inGroup('fastify', 'new'), oncekeyIn('fastify'), floorOf('fastify')),
    },
    overBare('koa', 50),
    overBare('node', 50),
    overBare('express', 35),
    overBare('hono', 70),
    overBare('fetch', 70),
    overPlatform('nest-express', 'express'),
    overPlatform('nest-fastify', 'fastify'),
    ...(['express', 'nest-express', 'nest-fastify'] as const).map(cheaper),
    ...(['fastify', 'koa', 'hono'] as const).map(near),
  ]
}

/** One request at a time, beside the plain statements that do the same. */
export function loneBars(groups: readonly Group[]): Bar[] {
  return (['new', 'replay'] as const).flatMap((mode): Bar[] => {
    const title = loneTitle('fastify', mode)
    const plain = plainNames[mode]
    const names = [oncekeyIn('fastify'), bareIn('fastify'), plain]
    const latency = within(
      find(groups, title),
      names,
      'meanMs',
      ([own, bare, statements]) => ((own as number) - (bare as number)) / (statements as number),
    )
    return [
      { what: `${title}: mean latency added to bare / ${plain}`, most: 1.6, measured: latency },
      {
        what: `${title}: server CPU / ${plain}`,
        most: 1.3,
        measured: ratio(find(groups, title), oncekeyIn('fastify'), plain, 'serverCpuMicros'),
      },
    ]
  })
}
