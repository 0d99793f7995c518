import type { Refusal } from "../../schemas/error.ts";

export type ReadBody =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | { readonly ok: false; readonly refusal: Refusal };

const tooLarge = (max_bytes: number): ReadBody => ({
  ok: false,
  refusal: {
    code: "payload_too_large",
    message: `The body may have at most ${max_bytes} bytes.`,
    details: { max_bytes },
  },
});

const BROKEN: ReadBody = {
  ok: false,
  refusal: { code: "invalid_request", message: "The body ended too early, or its framing is broken." },
};

/**
 * Reads a body of at most `max` bytes. A longer one is refused while it streams, before it is held in memory; one that its
 * sender does not finish is refused too.
 */
export async function readBody(request: Request, max: number): Promise<ReadBody> {
  if (Number(request.headers.get("content-length") ?? 0) > max) return tooLarge(max);
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  try {
    for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
      size += read.value.length;
      if (size > max) {
        await reader?.cancel();
        return tooLarge(max);
      }
      chunks.push(read.value);
    }
  } catch {
    return BROKEN;
  }
  const [only] = chunks;
  if (chunks.length === 1 && only) return { ok: true, bytes: only };
  const bytes = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return { ok: true, bytes };
}
