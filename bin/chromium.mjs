// Finds a Chrome or Chromium of this machine, or installs one. Plain Node; knows nothing of what runs in it.

import { execFileSync, spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { command, Refusal, ROOT } from './prepare.mjs'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome', 'microsoft-edge']

/**
 * The program, or null when there is none. `CHROME_PATH` goes before all others.
 * @returns {string | null}
 */
export function findChromium() {
  const chosen = process.env.CHROME_PATH
  if (chosen) {
    if (runs(chosen)) return chosen
    throw new Refusal(`CHROME_PATH is ${chosen}, which is not a program that can be run: correct it or unset it.`)
  }
  return [...onPath(), ...wellKnown(), ...downloadedByPlaywright()].find(runs) ?? null
}

/**
 * The program, installed when missing: by the distribution's package where there is one, else by Playwright's download.
 * @returns {Promise<string>}
 */
export async function findOrInstallChromium() {
  const found = findChromium()
  if (found) return found
  process.stderr.write('No Chrome or Chromium was found: installing one …\n')
  const asRoot = process.getuid?.() === 0 ? [] : canSudo() ? ['sudo', '-n'] : null
  if (existsSync('/etc/debian_version') && asRoot) {
    const [program, ...prefix] = [...asRoot, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get']
    await command(program, [...prefix, 'update', '-qq']).catch(() => {})
    await command(program, [...prefix, 'install', '-y', '-qq', '--no-install-recommends', 'chromium']).catch(() => {})
  }
  // Ubuntu's chromium package is a door to a snap, which may not start: what counts is that a program runs.
  if (!findChromium()) {
    await command(process.execPath, [
      join(ROOT, 'node_modules/playwright-core/cli.js'),
      ...['install', 'chromium', ...(asRoot ? ['--with-deps'] : [])],
    ]).catch(() => {})
  }
  const installed = findChromium()
  if (installed) return installed
  throw new Refusal(
    'No Chrome or Chromium could be found or installed: install one and run again, or set CHROME_PATH to its program.',
  )
}

function onPath() {
  return (process.env.PATH ?? '').split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name)))
}

function wellKnown() {
  if (process.platform === 'darwin') {
    const applications = ['/Applications', join(homedir(), 'Applications')]
    return ['Google Chrome', 'Chromium', 'Google Chrome Canary', 'Microsoft Edge'].flatMap((name) =>
      applications.map((folder) => join(folder, `${name}.app/Contents/MacOS`, name)),
    )
  }
  if (process.platform === 'win32') {
    const { PROGRAMFILES, 'PROGRAMFILES(X86)': PROGRAMFILES_X86, LOCALAPPDATA } = process.env
    return [PROGRAMFILES, PROGRAMFILES_X86, LOCALAPPDATA].flatMap((folder) =>
      folder
        ? [
            join(folder, 'Google/Chrome/Application/chrome.exe'),
            join(folder, 'Chromium/Application/chrome.exe'),
            join(folder, 'Microsoft/Edge/Application/msedge.exe'),
          ]
        : [],
    )
  }
  return ['/opt/google/chrome/chrome', '/snap/bin/chromium', '/var/lib/flatpak/exports/bin/org.chromium.Chromium']
}

function downloadedByPlaywright() {
  const cache = process.env.PLAYWRIGHT_BROWSERS_PATH ?? playwrightCache()
  if (!existsSync(cache)) return []
  const programs = [
    'chrome-linux/chrome',
    'chrome-linux64/chrome',
    'chrome-win/chrome.exe',
    'chrome-win64/chrome.exe',
    ...['chrome-mac', 'chrome-mac-arm64', 'chrome-mac-x64'].flatMap((folder) => [
      `${folder}/Chromium.app/Contents/MacOS/Chromium`,
      `${folder}/Google Chrome for Testing.app/Contents/MacOS/Google Chrome for Testing`,
    ]),
  ]
  return readdirSync(cache)
    .filter((name) => /^chromium-\d+$/.test(name))
    .sort()
    .reverse()
    .flatMap((name) => programs.map((program) => join(cache, name, program)))
}

function playwrightCache() {
  if (process.platform === 'darwin') return join(homedir(), 'Library/Caches/ms-playwright')
  if (process.platform === 'win32') return join(process.env.LOCALAPPDATA ?? homedir(), 'ms-playwright')
  return join(homedir(), '.cache/ms-playwright')
}

/** @param {string} program */
function runs(program) {
  try {
    accessSync(program, constants.X_OK)
    // Chrome on Windows opens a window when asked for its version.
    if (process.platform !== 'win32') execFileSync(program, ['--version'], { stdio: 'ignore', timeout: 30_000 })
    return true
  } catch {
    return false
  }
}

function canSudo() {
  return process.platform === 'linux' && spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0
}
