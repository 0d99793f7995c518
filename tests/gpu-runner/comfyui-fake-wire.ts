import { isObject, type Json, type JsonObject, loads } from "../fakes/comfyui/python-json.ts";
import type { SeenMessage } from "./comfyui-fake-normal.ts";
import type { RecordedPart } from "./comfyui-fake-recording.ts";

function multipart(parts: readonly RecordedPart[]): { readonly type: string; readonly body: Buffer } {
  const boundary = "----recorded";
  const chunks = parts.flatMap((part) => {
    const file = part.filename === undefined ? "" : `; filename="${part.filename}"`;
    const type = part.content_type === undefined ? "" : `\r\ncontent-type: ${part.content_type}`;
    const head = `--${boundary}\r\ncontent-disposition: form-data; name="${part.name}"${file}${type}\r\n\r\n`;
    const content =
      part.base64 === undefined ? Buffer.from(part.text ?? part.value ?? "") : Buffer.from(part.base64, "base64");
    return [Buffer.from(head), content, Buffer.from("\r\n")];
  });
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    body: Buffer.concat([...chunks, Buffer.from(`--${boundary}--\r\n`)]),
  };
}

export function bodyOf(body: Json | undefined): { readonly type: string; readonly body: string | Buffer } | undefined {
  if (body === undefined) return undefined;
  if (typeof body === "string")
    return { type: "application/json", body: Buffer.from(body, body.includes("\u00ff") ? "latin1" : "utf8") };
  if (isObject(body) && Array.isArray(body.multipart)) return multipart(body.multipart as unknown as RecordedPart[]);
  if (isObject(body) && isObject(body.form)) {
    const type = "application/x-www-form-urlencoded";
    return { type, body: new URLSearchParams(body.form as Record<string, string>).toString() };
  }
  return { type: "application/json", body: JSON.stringify(body) };
}

export function textMessage(data: Buffer): SeenMessage {
  const message = loads(data.toString()) as JsonObject;
  return { type: String(message.type), data: message.data ?? null };
}

export function frame(data: Buffer): SeenMessage {
  const kind = data.readUInt32BE(0);
  if (kind === 1) return { type: "PREVIEW_IMAGE", data: data.readUInt32BE(4) === 1 ? "JPEG" : "PNG" };
  const metadata = data.subarray(8, 8 + data.readUInt32BE(4)).toString();
  return { type: "PREVIEW_IMAGE_WITH_METADATA", data: loads(metadata) };
}
