import { createReadStream } from "node:fs";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { pipeline } from "node:stream/promises";

/** An answer of a few hundred bytes; more than this is not read. */
const MAX_ANSWER_BYTES = 64 * 1024;

export interface FileAnswer {
  readonly status: number;
  readonly text: string;
}

async function readAnswer(response: IncomingMessage): Promise<string> {
  let text = "";
  response.setEncoding("utf8");
  for await (const chunk of response) {
    text += chunk;
    if (text.length > MAX_ANSWER_BYTES) break;
  }
  return text;
}

/**
 * Puts a file of `size` bytes as it is read: however large it is, a few chunks of it are in memory (measured: `fetch` keeps what the
 * line has not taken yet, all of it on a slow one). An answer that comes before the last byte counts. Follows no redirect. Rejects
 * for faults of the disk and of the line, and when the signal is aborted.
 */
export async function putFile(
  url: string,
  { path, size, headers, signal }: { path: string; size: number; headers: Record<string, string>; signal: AbortSignal },
): Promise<FileAnswer> {
  const request = (url.startsWith("https:") ? httpsRequest : httpRequest)(url, {
    method: "PUT",
    headers: { ...headers, "content-length": size },
    signal,
  });
  const answered = new Promise<FileAnswer>((resolve, reject) => {
    request.on("error", reject);
    request.on("response", (response) => {
      readAnswer(response).then((text) => resolve({ status: response.statusCode ?? 0, text }), reject);
    });
  });
  const sent = pipeline(createReadStream(path), request);
  // A broken line may still bring the answer that broke it; where it does not, `answered` rejects too.
  sent.catch((error: unknown) => request.destroy(error instanceof Error ? error : undefined));
  try {
    return await answered;
  } finally {
    if (!request.writableFinished) request.destroy();
  }
}
