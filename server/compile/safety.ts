// Texts of a config that become more than data at full size: a folder, a word in a job script, a name of a module, a
// template. Each must have the plain form of what it names. Everything else is data, and stands in quotes in the TOML.

import { isTable, type Path, type Table } from '../../configs/path.ts'
import { patternOf } from '../../configs/vocabulary.ts'
import { isVariable, loadsPrograms } from '../variableNames.ts'

export interface Unsafe {
  path: Path
  why: string
}

interface Form {
  where: RegExp
  /** Null: no text is taken. */
  form: RegExp | null
  what: string
}

const WORD = /^[A-Za-z0-9_][A-Za-z0-9_.,:@%+[\]-]*$/
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/
const FOLDER = /^(?!.*(^|\/)\.\.(\/|$))[A-Za-z0-9_./][A-Za-z0-9_./@+-]*$/
const INSIDE = /^(?!.*(^|\/)\.\.(\/|$))[A-Za-z0-9_.][A-Za-z0-9_./@+-]*$/
const ID = /^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_.-]*(\/[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@[A-Za-z0-9_.+-]+)?$/
const MODULE = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*)?$/
const URL_FORM = /^https?:\/\/[A-Za-z0-9.[\]:_-]+(\/[A-Za-z0-9_./~-]*)?$/
const VALUE = /^(?!-)(?!.*(^|\/)\.\.(\/|$))[A-Za-z0-9_./:@,=+-]*$/

const FORMS: Form[] = [
  {
    where: /^slurm\.(pre_run_command|template_path)$/,
    form: null,
    what: 'runs as shell on the cluster; whoever runs the server sets it there',
  },
  { where: /(^|\.)chat_template$/, form: null, what: 'is a program in itself; put it into the model’s folder' },
  {
    where: /^slurm\.(project_dir)$|(^|\.)(output_dir|trace_path|memory_profiler_path)$|^resume\.dir$|\.log\.file$/,
    form: FOLDER,
    what: 'becomes a folder',
  },
  { where: /^run\.dir$|(^|\.)monitors\.file\.path$/, form: INSIDE, what: 'becomes a file in the folder of the run' },
  { where: /^slurm\.\w+$/, form: WORD, what: 'becomes a word of a job script' },
  { where: /^(run\.name|name)$/, form: NAME, what: 'becomes a folder and a job' },
  {
    where: /^model$|(^|\.)model\.name$|(^|\.)tokenizer\.name$|\.vllm\.(model|tokenizer|served_model_name)(\[\])?$/,
    form: FOLDER,
    what: 'becomes a folder or an id of the Hub',
  },
  {
    where: /(^|\.)(source|env)\[\](\.env)?(\.taskset|\.agent\.harness|\.harness)?\.id$/,
    form: ID,
    what: 'becomes a package',
  },
  { where: /(^|\.)(source|env)\[\]\.name$/, form: ID, what: 'becomes a folder of samples' },
  { where: /(^|\.)(renderer|lora|data)\.name$/, form: FOLDER, what: 'becomes a folder or an id' },
  { where: /(^|\.)import_path$/, form: MODULE, what: 'becomes an import' },
  { where: /(^|\.)(base_url|admin_base_url|url|address)(\[\])?$/, form: URL_FORM, what: 'becomes an address' },
  { where: /(^|\.)env_vars\./, form: VALUE, what: 'becomes a variable of a job script' },
  {
    where: /(^|\.)(lora\.)?(target_modules|modules_to_save)\[\]$/,
    form: /^[\w.*+?^$()|[\]\\-]+$/,
    what: 'becomes a pattern of module names',
  },
  { where: /^env_files\[\]$/, form: INSIDE, what: 'becomes a file' },
  { where: /(^|\.)api_key_var$|(^|\.)headers_from_env\./, form: /^[A-Za-z_]\w*$/, what: 'becomes a variable' },
]

export function unsafeTexts(table: Table, noneIsNull: boolean): Unsafe[] {
  const found: Unsafe[] = []
  const visit = (path: Path, value: unknown): void => {
    if (Array.isArray(value)) for (const [i, entry] of value.entries()) visit([...path, i], entry)
    else if (isTable(value)) {
      for (const [key, entry] of Object.entries(value)) {
        const why = badVariable(path, key)
        if (why) found.push({ path: [...path, key], why })
        visit([...path, key], entry)
      }
    } else if (typeof value === 'string') {
      const why = unsafe(patternOf(path), value, noneIsNull)
      if (why) found.push({ path, why })
    }
  }
  visit([], table)
  return found
}

function unsafe(pattern: string, value: string, noneIsNull: boolean): string | null {
  const rule = FORMS.find(({ where }) => where.test(pattern))
  const said = JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}…` : value)
  if (rule && !rule.form?.test(value)) {
    return rule.form
      ? `${said} cannot go along: ${rule.what} there, and only its plain letters are taken.`
      : `it ${rule.what}.`
  }
  if (noneIsNull && value === 'None') return 'the text "None" means no value there; choose another.'
  return null
}

function badVariable(path: Path, key: string): string | null {
  if (path[path.length - 1] !== 'env_vars') return null
  if (!isVariable(key)) return `${JSON.stringify(key)} is no name of a variable.`
  return loadsPrograms(key) ? `${key} changes which programs run; it is not taken from a config.` : null
}
