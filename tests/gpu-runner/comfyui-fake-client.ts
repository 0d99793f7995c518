import { type Agent, type IncomingHttpHeaders, request as httpRequest } from "node:http";
import { WebSocket } from "ws";
import { type Json, type JsonObject, isObject, loads } from "../fakes/comfyui/python-json.ts";
import type { FakeComfyui } from "../fakes/comfyui/server.ts";

export interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Of a JSON object, that object. */
  readonly body: JsonObject;
}

/** One request, on a connection of its own unless an agent is given. */
export async function ask(
  fake: FakeComfyui,
  method: string,
  path: string,
  body?: Json | FormData,
  agent: Agent | false = false,
): Promise<Answered> {
  const isForm = body instanceof FormData;
  const sent = new Response(
    body === undefined ? null : isForm || typeof body === "string" ? body : JSON.stringify(body),
  );
  const content = Buffer.from(await sent.arrayBuffer());
  const type = sent.headers.get("content-type");
  const headers = { "content-length": content.length, ...(type === null ? {} : { "content-type": type }) };
  return new Promise((resolve, reject) => {
    const request = httpRequest(fake.url + path, { method, headers, agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = response.headers["content-type"]?.startsWith("application/json") === true;
        const parsed = isJson ? loads(text) : {};
        const answer = { status: response.statusCode ?? 0, headers: response.headers, text };
        resolve({ ...answer, body: isObject(parsed) ? parsed : {} });
      });
    });
    request.on("error", reject);
    request.end(content);
  });
}

export interface Listener {
  /** Text messages as sent, and the kinds of binary frames. */
  readonly texts: string[];
  readonly frames: Buffer[];
  readonly types: () => string[];
  closedWith(): number | undefined;
  readonly socket: WebSocket;
}

export async function listen(
  fake: FakeComfyui,
  clientId: string,
  options: { readonly autoPong?: boolean } = {},
): Promise<Listener> {
  const socket = new WebSocket(`${fake.url.replace("http", "ws")}/ws?clientId=${clientId}`, options);
  const texts: string[] = [];
  const frames: Buffer[] = [];
  let closed: number | undefined;
  socket.on("message", (data: Buffer, binary: boolean) => {
    if (binary) frames.push(data);
    else texts.push(data.toString());
  });
  socket.on("close", (code: number) => {
    closed = code;
  });
  socket.on("error", () => undefined);
  await new Promise((resolve, reject) => {
    socket.once("open", resolve);
    socket.once("error", reject);
  });
  const types = () => texts.map((text) => String((loads(text) as JsonObject).type));
  return { texts, frames, types, closedWith: () => closed, socket };
}

/** A picture of one colour, saved under a prefix. */
export const saving = (color = 1, filename_prefix = "made"): Record<string, JsonObject> => ({
  "1": { class_type: "EmptyImage", inputs: { width: 16, height: 16, batch_size: 1, color } },
  "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix } },
});

/** The same with a node between that takes so many steps of so many milliseconds. */
export const slow = (steps: number, step_ms: number, color = 1): Record<string, JsonObject> => ({
  ...saving(color),
  "2": { class_type: "SaveImage", inputs: { images: ["3", 0], filename_prefix: "made" } },
  "3": { class_type: "TestSlow", inputs: { image: ["1", 0], steps, step_ms, preview: false } },
});
