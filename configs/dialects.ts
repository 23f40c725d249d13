// Every other name that a knob of a run goes by -> ours: the tables stand in dialects/, one file a vocabulary.

import { DOCUMENTS } from './dialects/documents.ts'
import { HOSTED } from './dialects/hosted.ts'
import { PRIME_RL } from './dialects/prime-rl.ts'
import { PRIME_RL_2026_01 } from './dialects/prime-rl-2026-01.ts'
import { PRIME_RL_2026_08 } from './dialects/prime-rl-2026-08.ts'
import { VF_RL } from './dialects/vf-rl.ts'
import { Vocabulary } from './vocabulary.ts'

export const DIALECTS = [DOCUMENTS, HOSTED, PRIME_RL, VF_RL]

export const RUN_VOCABULARY = new Vocabulary(DIALECTS, [PRIME_RL_2026_08, PRIME_RL_2026_01])
