import { Agent, type IncomingHttpHeaders, request as httpRequest } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { WebSocket } from "ws";
import { isObject, type Json, loads } from "../fakes/comfyui/python-json.ts";
import type { FakeComfyui } from "../fakes/comfyui/server.ts";
import {
  aboutPrompts,
  normalHeaders,
  type SeenMessage,
  statusApart,
  type World,
  withoutMiddleSteps,
} from "./comfyui-fake-normal.ts";
import {
  isMessage,
  type RecordedHttp,
  type RecordedMessage,
  type Recording,
  recordedMessage,
  recordedOutputs,
} from "./comfyui-fake-recording.ts";
import { bodyOf, frame, textMessage } from "./comfyui-fake-wire.ts";

export interface ReplayOptions {
  /** Requests that are left out. */
  readonly without?: (http: RecordedHttp) => boolean;
  /** What the recorder's server had been through before. */
  readonly before?: (fake: FakeComfyui) => Promise<void>;
  /** What the recording tells to have been done outside the protocol. */
  readonly outside?: (what: string, fake: FakeComfyui) => void | Promise<void>;
  readonly dropsMiddleSteps?: boolean;
  /** Where prompts overlap: `status` messages are compared by themselves, all that they told or only the last. */
  readonly statuses?: "apart" | "last";
  readonly argv?: readonly string[];
}

const PATIENCE_MS = 5_000;
/** Within this, what should not have been sent would have come. */
const SETTLE_MS = 25;

interface Received {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

interface Client {
  readonly socket: WebSocket;
  readonly messages: SeenMessage[];
  closedWith?: number;
}

/** Does to the fake what a recording's client did, in its order, waiting for what the client had seen by then. */
export class Replay {
  readonly #recording: Recording;
  readonly #options: ReplayOptions;
  readonly #fake: FakeComfyui;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #clients = new Map<string, Client>();
  /** Recorded ids and names by those of the fake, and the other way round. */
  readonly #recorded = new Map<string, string>();
  readonly #actual = new Map<string, string>();
  readonly #etags = new Map<string, string>();
  readonly http: Json[] = [];

  constructor(recording: Recording, options: ReplayOptions, fake: FakeComfyui) {
    this.#recording = recording;
    this.#options = options;
    this.#fake = fake;
  }

  get world(): World {
    return { folder: this.#fake.folder, names: this.#recorded };
  }

  /** The messages of each client as they came from the fake. */
  get messages(): Readonly<Record<string, readonly SeenMessage[]>> {
    return Object.fromEntries([...this.#clients].map(([name, { messages }]) => [name, messages]));
  }

  async run(): Promise<void> {
    const { http, ws } = this.#recording;
    const acts = ws.filter(
      ({ event, sent, sent_text }) => event !== undefined || sent !== undefined || sent_text !== undefined,
    );
    const all = [...http, ...acts].sort((a, b) => a.seq - b.seq);
    for (const act of all) {
      if (act.seq > 1) await this.#seenUntil(act.seq);
      if ("client" in act) await this.#actOnSocket(act);
      else if (act.outside !== undefined) await this.#options.outside?.(act.outside, this.#fake);
      else if (this.#options.without?.(act) !== true) this.http.push(await this.#ask(act));
    }
    this.#agent.destroy();
  }

  /** Waits until each client has at least what it had in the recording by then, as far as that is compared. */
  async #seenUntil(seq: number): Promise<void> {
    const relevant = (messages: readonly SeenMessage[]): readonly SeenMessage[] =>
      this.#options.statuses === undefined ? messages : aboutPrompts(stepsOf(messages, this.#options));
    for (const [name, client] of this.#clients) {
      const before = this.#recording.ws.filter((one) => one.client === name && one.seq < seq && isMessage(one));
      const due = relevant(before.map(recordedMessage)).length;
      const isThere = () => client.closedWith !== undefined || relevant(client.messages).length >= due;
      for (const start = Date.now(); !isThere() && Date.now() - start < PATIENCE_MS; ) await wait(2);
    }
  }

  async #actOnSocket(act: RecordedMessage): Promise<void> {
    if (act.event === "open") await this.#open(act);
    const client = this.#clients.get(act.client);
    if (client === undefined) return;
    if (act.sent !== undefined) client.socket.send(JSON.stringify(act.sent));
    if (act.sent_text !== undefined) client.socket.send(act.sent_text);
    if (act.event !== "close") return;
    if (act.how === "CLOSED") {
      const isClosed = () => client.closedWith !== undefined;
      for (const start = Date.now(); !isClosed() && Date.now() - start < PATIENCE_MS; ) await wait(2);
      client.messages.push({ type: "closed", data: client.closedWith ?? null });
      return;
    }
    await wait(SETTLE_MS);
    const open = this.#fake.sockets();
    client.socket.close();
    for (const start = Date.now(); this.#fake.sockets() >= open && Date.now() - start < PATIENCE_MS; ) await wait(2);
  }

  async #open({ client: name, path = "/ws" }: RecordedMessage): Promise<void> {
    const socket = new WebSocket(this.#fake.url.replace("http", "ws") + path, { perMessageDeflate: false });
    const client: Client = { socket, messages: [] };
    this.#clients.set(name, client);
    socket.on("message", (data: Buffer, binary: boolean) => {
      client.messages.push(binary ? frame(data) : textMessage(data));
      if (client.messages.length === 1) this.#pairSids(name, client);
    });
    socket.on("close", (code: number) => {
      client.closedWith = code;
    });
    socket.on("error", () => undefined);
    await new Promise((resolve, reject) => {
      socket.once("open", resolve);
      socket.once("error", reject);
    });
  }

  async #ask(recorded: RecordedHttp): Promise<Json> {
    this.#pairTemporaryNames();
    this.#orderOutputs(recorded);
    await this.#ended(recorded);
    const body = bodyOf(recorded.request_body);
    const sent = typeof body?.body === "string" ? this.#toActual(body.body) : body?.body;
    const headers: Record<string, string> = { ...recorded.request_headers };
    const given = headers["If-None-Match"];
    if (given !== undefined) headers["If-None-Match"] = this.#etags.get(recorded.path ?? "") ?? given;
    const isHanging = recorded.error?.startsWith("no answer") === true;
    let received: Received;
    try {
      received = await this.#send(
        recorded,
        { ...(body === undefined ? {} : { "content-type": body.type }), ...headers },
        sent,
        isHanging,
      );
    } catch {
      return { status: "no answer" };
    }
    if (typeof received.headers.etag === "string") this.#etags.set(recorded.path ?? "", received.headers.etag);
    const isJson = String(received.headers["content-type"]).startsWith("application/json");
    const isText = /^text\/plain/.test(String(received.headers["content-type"])) || received.body.length === 0;
    const value = isJson ? loads(received.body.toString()) : isText ? received.body.toString() : "bytes";
    this.#pairIds(recorded, value);
    return {
      status: received.status,
      headers: normalHeaders(received.headers, this.world),
      body: value,
    };
  }

  /** A recorded history entry was asked for when the prompt had ended, even if no socket told so. */
  async #ended({ path, response_body }: RecordedHttp): Promise<void> {
    const id = /^\/history\/(.+)$/.exec(path ?? "")?.[1];
    if (id === undefined || !isObject(response_body) || response_body[id] === undefined) return;
    const isThere = () =>
      this.#fake.history().includes(this.#toActual(id)) && this.#fake.running() !== this.#toActual(id);
    for (const start = Date.now(); !isThere() && Date.now() - start < PATIENCE_MS; ) await wait(2);
  }

  #send(
    { method, path }: RecordedHttp,
    headers: Record<string, string>,
    body: string | Buffer | undefined,
    hangs: boolean,
  ): Promise<Received> {
    return new Promise((resolve, reject) => {
      const url = this.#fake.url + this.#toActual(path ?? "");
      const options = { method: method ?? "GET", headers, agent: this.#agent, ...(hangs ? { timeout: 100 } : {}) };
      const request = httpRequest(url, options, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => {
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) });
        });
        response.on("error", reject);
      });
      request.on("timeout", () => request.destroy(new Error("no answer")));
      request.on("error", reject);
      request.end(body);
    });
  }

  #pairSids(name: string, { messages }: Client): void {
    const first = this.#recording.ws.find((one) => one.client === name && isMessage(one));
    const told = messages[0]?.data;
    const [recorded, actual] = [first?.data?.sid, isObject(told) ? told.sid : undefined];
    if (typeof recorded === "string" && typeof actual === "string") this.#pair(recorded, actual);
  }

  #pair(recorded: string, actual: string): void {
    this.#recorded.set(actual, recorded);
    this.#actual.set(recorded, actual);
  }

  #toActual(text: string): string {
    let replaced = text;
    for (const [recorded, actual] of this.#actual) replaced = replaced.replaceAll(recorded, actual);
    return replaced;
  }

  #pairIds({ response_body }: RecordedHttp, value: Json): void {
    if (!isObject(response_body) || !isObject(value)) return;
    const [recordedJobs, actualJobs] = [response_body.jobs, value.jobs];
    for (const [index, job] of (Array.isArray(recordedJobs) ? recordedJobs : []).entries()) {
      const actual = Array.isArray(actualJobs) ? actualJobs[index] : undefined;
      if (isObject(job) && isObject(actual)) this.#pair(String(job.id), String(actual.id));
    }
    if (typeof response_body.prompt_id === "string" && typeof value.prompt_id === "string") {
      this.#pair(response_body.prompt_id, value.prompt_id);
    }
  }

  /** Names of temporary files are paired in the order in which they were told. */
  #pairTemporaryNames(): void {
    const told = (messages: readonly SeenMessage[]) =>
      [...JSON.stringify(messages).matchAll(/ComfyUI_temp_[a-z]{5}_\d{5}_\.png/g)].map(([name]) => name);
    for (const [client, { messages }] of this.#clients) {
      const recorded = told(
        this.#recording.ws.filter((one) => one.client === client && isMessage(one)).map(recordedMessage),
      );
      for (const [index, actual] of told(messages).entries()) this.#pair(recorded[index] ?? actual, actual);
    }
  }

  /** The outputs of a prompt are taken up in the recorded order. */
  #orderOutputs({ response_body }: RecordedHttp): void {
    if (!isObject(response_body) || typeof response_body.prompt_id !== "string") return;
    const order = recordedOutputs(this.#recording, response_body.prompt_id);
    this.#fake.knobs.ordersOutputs = (ids) => (order.length === ids.length ? order : ids);
  }
}

const stepsOf = (messages: readonly SeenMessage[], { dropsMiddleSteps }: ReplayOptions): readonly SeenMessage[] =>
  dropsMiddleSteps === true ? withoutMiddleSteps(messages) : messages;

export function comparable(messages: readonly SeenMessage[], options: ReplayOptions): readonly SeenMessage[] {
  const steps = stepsOf(messages, options);
  return options.statuses === undefined ? steps : statusApart(steps, options.statuses === "last");
}
