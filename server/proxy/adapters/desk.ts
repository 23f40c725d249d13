export interface AdapterDesk {
  wanted: import('../names.ts').WantedAdapter[]
  changed: () => void
  reconcile(node: import('../node.ts').Node, readModels: () => Promise<void>): Promise<void>
}
