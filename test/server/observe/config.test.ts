// server.toml: mistakes with their places, and what a running server takes of a change.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { DEFAULT_CONFIG, loadConfig, readConfig, takeChanges } from '../../../server/config.ts'
import { ConfigFile } from '../../../server/configFile.ts'
import { NEW_SERVER_TOML } from '../../../server/newConfig.ts'
import { openLog } from '../../../server/observe/log.ts'
import { temporary } from './temporary.ts'

function problem(text: string) {
  const { problems } = loadConfig(text)
  return problems?.map(({ sentence, path, line, column }) => [path, line, column, sentence])
}

describe('a mistake', () => {
  it.each([
    [
      '[server]\nport = "5173"',
      'server.port',
      2,
      8,
      'must be a number, but it is the text "5173"; write 5173 without quotes.',
    ],
    ['[server]\nprot = 1', 'server.prot', 2, 1, 'Unknown key prot in server; did you mean port?'],
    ['[sever]\nport = 1', 'sever', 1, 2, 'Unknown key sever in server.toml; did you mean server?'],
    ['[server]\nport = 70000', 'server.port', 2, 8, 'must be 65535 or less, but it is 70000.'],
    ['\n[log]\nlevel = "warning"', 'log.level', 3, 9, 'must be one of trace, debug, info, warn, error, silent'],
    ['[server]\nhosts = ["https://lab.example"]', 'server.hosts[0]', 2, 10, 'expected a host name in lower case'],
    [
      '[server]\npublic_url = "https://lab.example/x"',
      'server.public_url',
      2,
      14,
      'expected an address without a path',
    ],
    ['[access]\norigins = ["*"]', 'access.origins[0]', 2, 12, 'expected an address without a path'],
    ['[local]\nmax_runs = 1.5', 'local.max_runs', 2, 12, 'must be a whole number'],
    ['[store]\nurl = "mysql://x"', 'store.url', 2, 7, 'expected postgres://'],
    ['[store]\nurl = "postgres://a/b"\nurl_env = "X"', 'store', 1, 1, 'both url and url_env'],
    [
      '[[node]]\nname = "a"\nurl = "http://10.0.0.7:8000"\nmax_inflight = 3',
      'node[0].max_inflight',
      4,
      1,
      'did you mean max_in_flight?',
    ],
    ['[server', '', 1, 2, 'This is not TOML'],
  ])('in %j is at %s, %i:%i', (text, path, line, column, sentence) => {
    expect(problem(text)).toEqual([[path, line, column, expect.stringContaining(sentence)]])
  })

  it('is told with all others, and with the file', () => {
    const file = join(temporary(), 'server.toml')
    writeFileSync(file, '[server]\nport = -1\nhots = []\n')
    expect(() => readConfig(file)).toThrow(
      `${file}:2:8: server.port must be 0 or more, but it is -1.\n${file}:3:1: Unknown key hots in server; did you mean`,
    )
    expect(() => readConfig(join(file, '../none.toml'))).toThrow(/cannot be read: .*serve --init/)
  })
})

describe('a file', () => {
  it('as --init writes it is the defaults, and every line that is commented out is good too', () => {
    const { log, store, ...rest } = loadConfig(NEW_SERVER_TOML).config!
    expect(rest).toEqual({ ...DEFAULT_CONFIG, log: undefined, store: undefined, ...rest })
    const all = NEW_SERVER_TOML.split('\n')
      .map((line) => line.replace(/^# (?=\w+ = |\[\[)/, ''))
      .filter((line) => !line.startsWith('key_file') && !line.startsWith('# Changes'))
      .join('\n')
    const { config, problems } = loadConfig(all)
    expect(problems).toBeUndefined()
    expect(config!.server.hosts).toEqual(['lab.example'])
    expect(config!.node).toHaveLength(1)
  })

  it('names paths from its own folder', () => {
    const folder = temporary()
    const file = join(folder, 'server.toml')
    writeFileSync(file, '[store]\nfolder = "kept"\n[secrets]\nkey_file = "../k"\n[log]\nfile = "/var/log/lab.log"')
    const config = readConfig(file)
    expect([config.store.folder, config.secrets.key_file, config.log.file]).toEqual([
      join(folder, 'kept'),
      join(folder, '../k'),
      '/var/log/lab.log',
    ])
    writeFileSync(file, '')
    expect(readConfig(file).store.folder).toBe(join(folder, 'data'))
  })
})

describe('a change', () => {
  const config = (text: string) => loadConfig(text).config!

  it('is taken where it may, and named where it waits', () => {
    const now = config('[server]\nport = 1\n[log]\nlevel = "info"')
    const wanted = config(
      '[server]\nport = 2\nshutdown_seconds = 5\n[log]\nlevel = "debug"\nfile = "x"\n[access]\norigins = ["https://a.example"]\n[[node]]\nname = "a"\nurl = "http://10.0.0.7"',
    )
    const { config: taken, waiting } = takeChanges(now, wanted)
    expect(waiting).toEqual(['server.port', 'log.file'])
    expect(taken.server).toMatchObject({ port: 1, shutdown_seconds: 5 })
    expect(taken.log).toEqual({ level: 'debug' })
    expect([taken.access.origins, taken.node.length]).toEqual([['https://a.example'], 1])
  })

  it('does not open a server of this machine to others while it runs', () => {
    const { config: taken, waiting } = takeChanges(config(''), config('[server]\nhosts = ["lab.example"]'))
    expect([taken.server.hosts, waiting]).toEqual([[], ['server']])
    const more = takeChanges(config('[server]\nhosts = ["a.example"]'), config('[server]\nhosts = ["b.example"]'))
    expect([more.config.server.hosts, more.waiting]).toEqual([['b.example'], []])
  })

  it('of a file reaches whoever listens; a mistake changes nothing and is told', () => {
    const file = join(temporary(), 'server.toml')
    writeFileSync(file, '[log]\nlevel = "info"')
    const said: string[] = []
    const { log } = openLog({ level: 'info', to: { write: (line) => said.push(line) } })
    const source = new ConfigFile(file, readConfig(file))
    const heard: string[] = []
    source.onChange(({ log }) => heard.push(log.level))
    source.watch(log)
    try {
      writeFileSync(file, '[log]\nlevel = "loud"')
      source.reload()
      expect([source.current.log.level, heard]).toEqual(['info', []])
      expect(said.join('')).toContain(`${file}:2:9`)
      writeFileSync(file, '[log]\nlevel = "warn"\n[server]\nport = 9')
      process.emit('SIGHUP')
      expect([source.current.log.level, source.current.server.port, heard]).toEqual(['warn', 5173, ['warn']])
      expect(said.join('')).toContain('"waiting":["server.port"]')
      source.reload()
      expect(heard).toEqual(['warn'])
    } finally {
      source.close()
    }
    expect(process.listenerCount('SIGHUP')).toBe(0)
  })
})
