// What the proxy costs, and how it behaves when nodes do not:
//   node bench/proxy/run.mjs [throughput] [streams] [killed] [hung]     all when none is named; wants wrk on the path

import { cpus } from 'node:os'
import { join } from 'node:path'
import { buildPrograms, OUT, ROOT, runProgram, startProgram, stop, stopAll } from './programs.mjs'
import { throughput } from './throughput.mjs'

const asked = process.argv.slice(2)
/** @param {string} name */
const wanted = (name) => asked.length === 0 || asked.includes(name)

try {
  await buildPrograms()
  console.log(`${new Date().toISOString()} · Node ${process.version} · ${cpus().length} × ${cpus()[0].model}`)
  if (wanted('throughput')) console.table(await throughput({ repeats: 5, seconds: 4 }))
  if (wanted('streams')) {
    for (const way of /** @type {const} */ (['direct', 'the proxy'])) {
      const nodes = await Promise.all([0, 1, 2].map(() => startProgram('upstream')))
      const urls = nodes.map(({ url }) => url)
      const door = way === 'direct' ? nodes[0] : await startProgram('door', urls)
      await new Promise((resolve) => setTimeout(resolve, 500))
      const said = await runProgram('streams', [door.url, '1000'])
      let residentMB = null
      if (way !== 'direct') {
        door.child.kill('SIGUSR2')
        residentMB = Number(await door.nextLine())
      }
      console.log(`1,000 streams of 20 events in 50 ms, ${way}:`, { ...said, residentMB })
      for (const { child } of [door, ...nodes]) await stop(child)
    }
  }
  if (wanted('killed')) {
    const fixture = join(ROOT, 'test/policy/fixtures/adapter')
    console.log('one of three killed:', await runProgram('killed', [join(OUT, 'door.js'), fixture]))
  }
  if (wanted('hung')) {
    const nodes = await Promise.all([0, 1, 2].map(() => startProgram('upstream', [], { DELAY: '5' })))
    const door = await startProgram(
      'door',
      nodes.map(({ url }) => url),
    )
    await new Promise((resolve) => setTimeout(resolve, 1000))
    console.log('one of three hangs:', await runProgram('hung', [door.url, String(nodes[0].child.pid), '10']))
  }
} finally {
  await stopAll()
}
