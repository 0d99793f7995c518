/** Reads at most `limit` bytes of a stranger's answer as text and gives up the rest. */
export async function firstBytes(response: Response, limit: number): Promise<string> {
  const reader = response.body?.getReader();
  const bytes = new Uint8Array(limit);
  let size = 0;
  while (reader && size < limit) {
    const { done, value } = await reader.read();
    if (done) break;
    const part = value.subarray(0, limit - size);
    bytes.set(part, size);
    size += part.length;
  }
  await reader?.cancel();
  return new TextDecoder().decode(bytes.subarray(0, size));
}
