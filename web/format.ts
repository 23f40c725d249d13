// Numbers as a reader wants them: few digits, a unit, a proper minus. Knows nothing of what they measure.

const MINUS = '−'

/** Three significant digits or so: 0.893, 41.2, 8,465, 2.1e−7. */
export function number(value: number, digits = 3): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'not a number' : value > 0 ? '∞' : `${MINUS}∞`
  const size = Math.abs(value)
  let text: string
  if (size === 0) text = '0'
  else if (size < 1e-3) text = value.toExponential(1)
  else if (size >= 1000) text = Math.round(value).toLocaleString('en-US')
  else text = trimZeros(value.toPrecision(digits))
  return text.replaceAll('-', MINUS)
}

/** A fixed number of decimals: rewards and log-probabilities stand under each other. */
export function fixed(value: number, decimals = 2): string {
  if (!Number.isFinite(value)) return number(value)
  const text = value.toFixed(decimals)
  return (Number(text) === 0 ? text.replace('-', '') : text).replace('-', MINUS)
}

export function signed(value: number, decimals = 2): string {
  const text = fixed(value, decimals)
  return text.startsWith(MINUS) ? text : `+${text}`
}

/** 0.62 s · 16 s · 3 min 20 s · 2 h 05 min */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return 'unknown'
  if (seconds < 0.995) return `${seconds.toFixed(2)} s`
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`
  if (seconds < 60) return `${Math.round(seconds)} s`
  const whole = Math.round(seconds)
  if (whole < 3600) {
    const rest = whole % 60
    return rest && whole < 600 ? `${Math.floor(whole / 60)} min ${rest} s` : `${Math.round(whole / 60)} min`
  }
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, '0')} min`
}

/** 212 MB · 1.4 GB; powers of 1,000 as in storage dialogs. */
export function bytes(count: number): string {
  if (count < 1000) return `${count} B`
  if (count < 1e6) return `${number(count / 1e3)} kB`
  if (count < 1e9) return `${number(count / 1e6)} MB`
  return `${number(count / 1e9)} GB`
}

/** 8465 → 8,465 · 4,210,688 → 4.2 M */
export function count(value: number): string {
  if (value >= 1e9) return `${number(value / 1e9, 2)} B`
  if (value >= 1e6) return `${number(value / 1e6, 2)} M`
  return Math.round(value).toLocaleString('en-US')
}

export function ago(time: number, now = Date.now()): string {
  const seconds = Math.max(0, (now - time) / 1000)
  if (seconds < 60) return 'just now'
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`
  return new Date(time).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${value.toLocaleString('en-US')} ${value === 1 ? one : many}`
}

function trimZeros(text: string): string {
  return text.includes('.') && !text.includes('e') ? text.replace(/\.?0+$/, '') : text
}
