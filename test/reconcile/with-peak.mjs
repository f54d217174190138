// The command line as it is built; at its end it tells how much time of the processor and how much memory it had.
import process from 'node:process'

process.on('exit', () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
  process.stdout.write(
    `\n ${Math.round((userCPUTime + systemCPUTime) / 1e6)} s of the processor, ${Math.round(maxRSS / 1024)} MB at the most`,
  )
})
await import('../../dist/cli/main.js')
