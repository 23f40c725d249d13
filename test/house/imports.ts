// Reads which files of the repository import which, from the syntax trees of all TypeScript and Svelte files.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import ts from 'typescript'

export interface Import {
  /** What is written between the quotes. */
  specifier: string
  /** From the repository's root, with forward slashes; null for a package or a builtin. */
  file: string | null
  /** The import vanishes when types are stripped. */
  typeOnly: boolean
}

/** All `.ts`, `.svelte` and `.js` files below the given folders, as paths from the root. */
export function sourceFiles(root: string, folders: string[]): string[] {
  return folders.flatMap((folder) =>
    existsSync(join(root, folder))
      ? readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
          .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)
          .filter((name) => /\.(ts|svelte|js|mjs)$/.test(name) && !/\.d\.ts$/.test(name))
          .sort()
      : [],
  )
}

export function importsOf(root: string, file: string): Import[] {
  const text = readFileSync(join(root, file), 'utf8')
  return specifiers(file.endsWith('.svelte') ? scripts(text) : text).map(({ specifier, typeOnly }) => ({
    specifier,
    typeOnly,
    file: specifier.startsWith('.') ? posix.normalize(posix.join(dirname(file), specifier.replace(/\?.*$/, ''))) : null,
  }))
}

/** Static, dynamic and type imports, re-exports, `new URL('…', import.meta.url)` and the patterns of `import.meta.glob`. */
export function specifiers(text: string): { specifier: string; typeOnly: boolean }[] {
  const found: { specifier: string; typeOnly: boolean }[] = []
  const add = (node: ts.Node | undefined, typeOnly: boolean) => {
    if (node && ts.isStringLiteralLike(node)) found.push({ specifier: node.text, typeOnly })
  }
  const visit = (node: ts.Node) => {
    if (ts.isImportDeclaration(node)) add(node.moduleSpecifier, erasedImport(node.importClause))
    else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, erasedExport(node))
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal, true)
    else if (ts.isCallExpression(node)) {
      const callee = node.expression
      if (callee.kind === ts.SyntaxKind.ImportKeyword) add(node.arguments[0], false)
      else if (callee.getText().startsWith('import.meta.glob')) {
        const [patterns] = node.arguments
        for (const pattern of patterns && ts.isArrayLiteralExpression(patterns) ? patterns.elements : [patterns]) {
          add(pattern, false)
        }
      }
    } else if (ts.isNewExpression(node) && node.expression.getText() === 'URL') {
      if (node.arguments?.[1]?.getText() === 'import.meta.url') add(node.arguments[0], false)
    }
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile('file.ts', text, ts.ScriptTarget.Latest, true))
  return found
}

function erasedImport(clause: ts.ImportClause | undefined): boolean {
  if (!clause) return false
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true
  const named = clause.namedBindings
  if (clause.name || !named || !ts.isNamedImports(named)) return false
  return named.elements.length > 0 && named.elements.every((element) => element.isTypeOnly)
}

function erasedExport(node: ts.ExportDeclaration): boolean {
  if (node.isTypeOnly) return true
  const named = node.exportClause
  return !!named && ts.isNamedExports(named) && named.elements.length > 0 && named.elements.every((e) => e.isTypeOnly)
}

function scripts(svelte: string): string {
  return [...svelte.matchAll(/<script\b[^>]*>([\s\S]*?)<\/script>/g)].map(([, body]) => body).join('\n')
}
