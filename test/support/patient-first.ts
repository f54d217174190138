import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Rooms whose files wait for leases and processes. Begun before the others, nobody waits for them in the end. */
const patient = /\/test\/(crashes|examples|model|outbox|phases|races|redis|silence|stores|workers)\//

/** The order of files on a machine that has not seen them before: vitest by itself goes by how long they took the last time. */
export class PatientFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project, moduleId }: TestSpecification) => `${project.name} ${patient.test(moduleId) ? 1 : 2}`
    // What is of one rank stays in the order that it has.
    return (await super.sort(files)).sort((a, b) => rank(a).localeCompare(rank(b)))
  }
}
