/** Tables in memory whose changes can be taken back: what a rolled back transaction leaves is exactly what was there before. */

export class Journal {
  #changes: (() => void)[] | undefined;

  record(undo: () => void): void {
    this.#changes?.push(undo);
  }

  /** Runs `work` and takes everything back if it throws. */
  transaction<T>(work: () => T): T {
    const changes: (() => void)[] = [];
    this.#changes = changes;
    try {
      return work();
    } catch (error) {
      for (const undo of changes.reverse()) undo();
      throw error;
    } finally {
      this.#changes = undefined;
    }
  }
}

/** A map with a journal. Its order means nothing: readers sort. */
export class Table<K, V> {
  readonly #rows = new Map<K, V>();
  readonly #journal: Journal;

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  get = (key: K): V | undefined => this.#rows.get(key);
  has = (key: K): boolean => this.#rows.has(key);
  values = (): Iterable<V> => this.#rows.values();

  get size(): number {
    return this.#rows.size;
  }

  set(key: K, value: V): void {
    const before = this.#rows.get(key);
    const had = this.#rows.has(key);
    this.#journal.record(() => {
      if (had) this.#rows.set(key, before as V);
      else this.#rows.delete(key);
    });
    this.#rows.set(key, value);
  }

  delete(key: K): void {
    const before = this.#rows.get(key);
    if (!this.#rows.has(key)) return;
    this.#journal.record(() => this.#rows.set(key, before as V));
    this.#rows.delete(key);
  }
}
