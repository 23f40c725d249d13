// The directives of the scripts that prime-rl renders, as a job over REST is asked for.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { directivesOf } from '../../server/engines/slurm/directives.ts'

const script = (...lines: string[]) =>
  `#!/bin/bash\n\n${lines.map((line) => `#SBATCH ${line}`).join('\n')}\n\nset -e\nsrun true\n`

describe('#SBATCH lines', () => {
  test('of the template for several nodes', () => {
    expect(
      directivesOf(
        script(
          ...[
            '--job-name=rl',
            '--nodes=4',
            '--ntasks-per-node=1',
            '--gres=gpu:8',
            '--partition=cluster',
            '--account=team',
          ],
          ...['--time=24:00:00', '--nodelist=n[0-3]', '--exclude=n9', '--exclusive', '--output=/o/job_%j.log'],
          ...['--error=/o/job_%j.log', '--signal=B:TERM@30'],
        ),
      ),
    ).toEqual({
      ...{ nodes: 4, tasksPerNode: 1, gres: 'gpu:8', partition: 'cluster', account: 'team', time: '24:00:00' },
      ...{ nodelist: 'n[0-3]', exclude: 'n9', exclusive: true, signal: 'B:TERM@30' },
    })
  })

  test.each([
    ['--mem=100G', 'Line 3 of rl.sbatch asks for --mem, which is not known here.'],
    ['-N 4', 'Line 3 of rl.sbatch is not understood: #SBATCH -N 4.'],
    ['--nodes=0', 'rl.sbatch asks for --nodes=0; expected a whole number from 1.'],
    ['--signal=soon', 'rl.sbatch asks for --signal=soon; expected one like B:TERM@30.'],
    ['--partition=a; rm -rf /', 'Line 3 of rl.sbatch holds more than a word'],
    ['--account=$(id)', 'Line 3 of rl.sbatch holds more than a word'],
  ])('%s is a problem, not a guess', (line, sentence) => {
    expect(() => directivesOf(script(line))).toThrow(sentence)
  })

  test('need a script, and are not looked for in other lines', () => {
    expect(() => directivesOf('echo')).toThrow('does not begin with #!')
    expect(directivesOf('#!/bin/bash\necho "#SBATCH --mem=1"\n # SBATCH --x\n##SBATCH --y\n')).toEqual({})
  })

  test('are words or a problem, whatever they say', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 30 }), (value) => {
        let taken: ReturnType<typeof directivesOf>
        try {
          taken = directivesOf(`#!/bin/bash\n#SBATCH --partition=${value}\n`)
        } catch {
          return
        }
        expect(taken.partition ?? '').toMatch(/^[A-Za-z0-9_.,:@%+[\]-]*$/)
      }),
      { numRuns: 500 },
    )
  })
})
