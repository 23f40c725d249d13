// Files that were dropped on the page or chosen, as a model folder: its name, and what lies directly in it.

export interface DroppedFolder {
  folder: string
  files: Map<string, File>
}

/** null when there is no file in what was dropped. */
export async function droppedFolder(transfer: DataTransfer): Promise<DroppedFolder | null> {
  // Both must be taken before the first await: the lists are emptied when the event is over.
  const loose = [...transfer.files]
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null)
  const folder = entries.find((entry) => entry.isDirectory) as FileSystemDirectoryEntry | undefined
  const files = new Map<string, File>()
  if (folder) {
    for (const entry of await entriesOf(folder))
      if (entry.isFile) files.set(entry.name, await fileOf(entry as FileSystemFileEntry))
  } else for (const file of loose) files.set(file.name, file)
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
