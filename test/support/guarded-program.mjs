// Runs a program for as long as standard input stays open, so that it cannot outlive the test that started it.
import { spawn } from 'node:child_process'
import process from 'node:process'

const { path, parameters } = JSON.parse(process.argv[2])
const program = spawn(path, parameters, { stdio: ['ignore', 'inherit', 'inherit'] })
program.on('exit', (code) => process.exit(code ?? 1))
program.on('error', (error) => {
  console.error(error.message)
  process.exit(1)
})
const stop = () => program.kill('SIGKILL')
process.stdin.on('end', stop).resume()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, stop)
