import { expect, test } from 'vitest'
import { configDocument } from '../../configs/document.ts'

test('docs/config.md says what the schema says', async () => {
  await expect(configDocument()).toMatchFileSnapshot('../../docs/config.md')
})
