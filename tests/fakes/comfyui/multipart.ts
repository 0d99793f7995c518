export interface FormPart {
  readonly name: string;
  /** Present and not empty on a file. */
  readonly filename?: string;
  readonly content: Buffer;
}

/** The parts of a form by name, the last of a name; nothing for another content type. */
export function formParts(content_type: string, body: Buffer): ReadonlyMap<string, FormPart> {
  const boundary = /^multipart\/form-data;.*boundary="?([^";]+)"?/i.exec(content_type)?.[1];
  const parts = new Map<string, FormPart>();
  if (content_type.startsWith("application/x-www-form-urlencoded")) {
    for (const [name, value] of new URLSearchParams(body.toString()))
      parts.set(name, { name, content: Buffer.from(value) });
  }
  if (boundary === undefined) return parts;
  const delimiter = Buffer.from(`--${boundary}`);
  let at = body.indexOf(delimiter);
  while (at >= 0) {
    const start = at + delimiter.length + 2;
    const next = body.indexOf(delimiter, start);
    if (next < 0) break;
    const part = onePart(body.subarray(start, next - 2));
    if (part !== undefined) parts.set(part.name, part);
    at = next;
  }
  return parts;
}

function onePart(bytes: Buffer): FormPart | undefined {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const disposition = /^content-disposition:(.*)$/im.exec(bytes.subarray(0, end).toString())?.[1] ?? "";
  const name = /[; ]name="((?:[^"\\]|\\.)*)"/i.exec(disposition)?.[1];
  if (name === undefined) return undefined;
  const extended = /[; ]filename\*=utf-8''([^;\s]+)/i.exec(disposition)?.[1];
  const plain = /[; ]filename="((?:[^"\\]|\\.)*)"/i.exec(disposition)?.[1]?.replaceAll(/\\(["\\])/g, "$1");
  const filename = extended === undefined ? plain : decodeURIComponent(extended);
  const content = bytes.subarray(end + 4);
  return filename === undefined || filename === "" ? { name, content } : { name, filename, content };
}
