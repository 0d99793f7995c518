import type { Removal } from "../../worker/account/outbox.ts";

/** The object store: which keys exist. */
export class Bucket {
  readonly keys = new Set<string>();

  put(key: string): void {
    this.keys.add(key);
  }

  remove({ what, key }: Removal): void {
    if (what === "object") this.keys.delete(key);
    else for (const one of [...this.keys]) if (one.startsWith(key)) this.keys.delete(one);
  }

  below(prefix: string): string[] {
    return [...this.keys].filter((key) => key.startsWith(prefix));
  }
}
