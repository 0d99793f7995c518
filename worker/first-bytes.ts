interface Read {
  readonly text: string;
  /** Why there is no more, where the answer broke off. */
  readonly fault?: unknown;
}

async function read(response: Response, limit: number, over: Promise<void>): Promise<Read> {
  const reader = response.body?.getReader();
  const bytes = new Uint8Array(limit);
  let size = 0;
  const text = () => new TextDecoder().decode(bytes.subarray(0, size));
  try {
    while (reader && size < limit) {
      const next = await Promise.race([reader.read(), over]);
      if (!next || next.done) break;
      const part = next.value.subarray(0, limit - size);
      bytes.set(part, size);
      size += part.length;
    }
  } catch (fault) {
    return { text: text(), fault };
  }
  await reader?.cancel().catch(() => {});
  return { text: text() };
}

/** Reads at most `limit` bytes of a stranger's answer as text and gives up the rest. Throws where the answer breaks off. */
export async function firstBytes(response: Response, limit: number): Promise<string> {
  const { text, fault } = await read(response, limit, new Promise(() => {}));
  if (fault !== undefined) throw fault;
  return text;
}

/** The same, whatever becomes of the answer: what has come of it within `patience_ms`. */
export async function bytesInTime(response: Response, limit: number, patience_ms: number): Promise<string> {
  const { text } = await read(response, limit, scheduler.wait(patience_ms));
  return text;
}
