import { expect, test } from 'vitest'
import { compileDocument } from './document.ts'

test('docs/compile.md says what becomes of every example, knob and rule', async () => {
  await expect(compileDocument()).toMatchFileSnapshot('../../docs/compile.md')
})
