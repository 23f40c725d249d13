// A real environment side in a thread of its own, with one environment that hangs its thread or kills it when told to.

import { parentPort } from 'node:worker_threads'
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter'
import { z } from 'zod'
import { rowsOf } from '../../environments/datasets.ts'
import { MultiTurnEnvironment } from '../../environments/environment.ts'
import type { EnvironmentLoader } from '../../environments/loader.ts'
import type { Message } from '../../environments/messages.ts'
import { Rubric } from '../../environments/rubric.ts'
import { createEnvironmentPort } from '../../workers/environments.ts'

class Wild extends MultiTurnEnvironment {
  constructor() {
    super({
      id: 'wild',
      title: 'Wild',
      summary: 'Hangs or kills its thread.',
      train: rowsOf([{ question: 'Well?', answer: 'ok' }]),
      rubric: new Rubric().addReward('right', ['completion', 'answer'], ({ completion, answer }) => {
        if (completion.at(-1)?.content === 'spin in the score') spin()
        return completion.at(-1)?.content === answer ? 1 : 0
      }),
      rewardRange: { minimum: 0, maximum: 1 },
      maxTurns: 2,
    })
  }

  override envResponse(messages: Message[]): Message[] {
    const said = messages.at(-1)!.content
    if (said === 'spin') spin()
    if (said === 'die') process.exit(3)
    return [{ role: 'user', content: 'And?' }]
  }
}

function spin(): void {
  while (performance.now() > 0); // a call, so that no bundler takes the loop for idle
}

const wild: EnvironmentLoader = {
  id: 'wild',
  title: 'Wild',
  summary: '',
  data: '',
  python: null,
  knobs: z.strictObject({}),
  load: () => new Wild(),
}

comlink.expose(createEnvironmentPort([wild]), nodeEndpoint(parentPort!))
