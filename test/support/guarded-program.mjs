// Runs a program for as long as standard input stays open, so that it cannot outlive the test that started it.
import { spawn } from 'node:child_process'
import process from 'node:process'

const { path, parameters } = JSON.parse(process.argv[2])
// In a group of its own: a program that is a script, or starts others, is ended with all of them.
const program = spawn(path, parameters, { stdio: ['ignore', 'inherit', 'inherit'], detached: true })
program.on('exit', (code) => {
  stop()
  process.exit(code ?? 1)
})
program.on('error', (error) => {
  console.error(error.message)
  process.exit(1)
})
const stop = () => {
  try {
    process.kill(-program.pid, 'SIGKILL')
  } catch {
    // Nobody of the group is left.
  }
}
process.stdin.on('end', stop).resume()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, stop)
