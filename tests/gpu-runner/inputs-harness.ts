import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders, type RequestListener } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import sharp from "sharp";
import { afterEach, expect } from "vitest";
import { createInputs, type InputsOptions } from "../../gpu-runner/inputs/create-inputs.ts";
import type { InputFile, InputKind, Inputs, InputsFetched } from "../../gpu-runner/inputs/inputs.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

export async function aFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "darkroom-inputs-"));
  cleanups.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export type Fetching = Inputs & {
  readonly folder: string;
  /** Of one URL. */
  one(url: string, kind?: InputKind, max_bytes?: number): Promise<InputsFetched>;
};

/** Inputs that may call loopback hosts, in a folder of their own, unless the options say otherwise. */
export async function someInputs(options: Partial<InputsOptions> = {}): Promise<Fetching> {
  const folder = options.folder ?? (await aFolder());
  const inputs = await createInputs({ loopback: true, ...options, folder });
  return {
    ...inputs,
    folder,
    one: (url, kind = "any", max_bytes) =>
      inputs.fetch([{ url, kind, ...(max_bytes === undefined ? {} : { max_bytes }) }], new AbortController().signal),
  };
}

export interface Served {
  readonly port: number;
  url(path?: string): string;
  /** Paths and headers of the requests, in order. */
  readonly requests: { readonly path: string; readonly headers: IncomingHttpHeaders }[];
  /** Connections that were ever opened, and those that are open. */
  readonly connections: { opened: number; open: number };
}

/** A customer's web server on loopback. */
export async function aServer(answer: RequestListener, certificate?: Certificate): Promise<Served> {
  const requests: Served["requests"] = [];
  const connections = { opened: 0, open: 0 };
  const listener: RequestListener = (request, response) => {
    requests.push({ path: request.url ?? "", headers: request.headers });
    answer(request, response);
  };
  const server = certificate ? createSecureServer(certificate, listener) : createServer(listener);
  server.on("tlsClientError", () => {});
  server.on("connection", (socket) => {
    connections.opened++;
    connections.open++;
    socket.on("close", () => connections.open--).on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const scheme = certificate ? "https" : "http";
  return { port, requests, connections, url: (path = "/") => `${scheme}://127.0.0.1:${port}${path}` };
}

/** Answers with these bytes, whatever is asked. */
export const sending =
  (bytes: Uint8Array | string, headers: Record<string, string> = {}): RequestListener =>
  (_request, response) =>
    response.writeHead(200, headers).end(bytes);

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/** A certificate that is its own authority, for these subject alternative names. */
export async function aCertificate(...names: readonly string[]): Promise<Certificate> {
  const folder = await mkdtemp(join(tmpdir(), "darkroom-certificate-"));
  const [key, cert] = [join(folder, "key"), join(folder, "cert")];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  const subject = ["-subj", "/CN=test", "-addext", `subjectAltName=${names.join(",")}`];
  try {
    await promisify(execFile)("openssl", [
      ...["req", "-x509", ...curve, "-nodes", "-days", "2", ...subject, "-keyout", key, "-out", cert],
    ]);
    return { key: await readFile(key, "utf8"), cert: await readFile(cert, "utf8") };
  } finally {
    await rm(folder, { recursive: true });
  }
}

export const picture = (format: "png" | "jpeg" | "webp" | "gif" | "avif" | "tiff"): Promise<Buffer> =>
  sharp({ create: { width: 8, height: 8, channels: 3, background: "teal" } })
    .toFormat(format)
    .toBuffer();

/** Paths below a folder, of files only, sorted. */
export async function filesUnder(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((file) => join(file.parentPath, file.name).slice(folder.length + 1)).sort();
}

/** Those of content alone. */
export const contentUnder = async (folder: string): Promise<string[]> =>
  (await filesUnder(folder)).filter((path) => /^[0-9a-f]{2}\//.test(path));

export const temporaryUnder = async (folder: string): Promise<string[]> =>
  (await filesUnder(folder)).filter((path) => path.startsWith("tmp/"));

/** The one file of a fetch, which must have succeeded. */
export function fileOf(fetched: InputsFetched): InputFile {
  expect(fetched).toMatchObject({ ok: true });
  const [file] = fetched.ok ? fetched.files.values() : [];
  if (!file) throw new Error("nothing was fetched");
  return file;
}

/** Why a fetch was refused. */
export const messageOf = (fetched: InputsFetched): string =>
  fetched.ok || fetched.reason === "aborted" ? `not refused: ${JSON.stringify(fetched)}` : fetched.message;
