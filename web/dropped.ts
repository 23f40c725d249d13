// Files that were dropped on the page or chosen, as a model folder: its name, and what lies directly in it.

export interface DroppedFolder {
  folder: string
  files: Map<string, File>
}

/** null when nothing that was dropped is a folder or a model's file. */
export async function droppedFolder(items: DataTransferItemList): Promise<DroppedFolder | null> {
  // Entries must be taken before the first await: the list is emptied when the event is over.
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null)
  const folder = entries.find((entry) => entry.isDirectory) as FileSystemDirectoryEntry | undefined
  const inside = folder ? await entriesOf(folder) : entries
  const files = new Map<string, File>()
  for (const entry of inside) if (entry.isFile) files.set(entry.name, await fileOf(entry as FileSystemFileEntry))
  return files.size > 0 ? { folder: folder?.name ?? 'model', files } : null
}

/** Of `<input type="file" webkitdirectory>`. */
export function chosenFolder(list: FileList): DroppedFolder | null {
  const files = new Map<string, File>()
  let folder = 'model'
  for (const file of list) {
    const [top, name, ...deeper] = file.webkitRelativePath.split('/')
    if (name === undefined || deeper.length > 0) continue
    folder = top
    files.set(name, file)
  }
  return files.size > 0 ? { folder, files } : null
}

async function entriesOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader()
  const found: FileSystemEntry[] = []
  // A browser hands them out in portions.
  for (;;) {
    const portion = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject))
    if (portion.length === 0) return found
    found.push(...portion)
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject))
}
