import { createAdaptorServer } from "@hono/node-server";
import { Hono, type MiddlewareHandler } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import * as v from "valibot";
import { scanJson } from "../schemas/json-scan.ts";
import { MAX_JSON_DEPTH, MAX_JSON_VALUES } from "../schemas/limits.ts";
import { type Execution, Order, ProofRequest, RUNNER_PATHS, Stop } from "../schemas/runner-protocol.ts";
import { sha256 } from "../schemas/signed-request.ts";
import type { Gate } from "./auth.ts";
import type { Log } from "./log.ts";
import { StartError } from "./start-error.ts";
import type { Offer } from "./table.ts";

/** A submission of 10 MiB, and room for what an order adds to it. */
export const MAX_ORDER_BYTES = 12 * 1024 * 1024;
/** The order's own members stand beside the prompt, and the prompt lies one level deeper than it was submitted. */
const BOUNDS = { maxValues: MAX_JSON_VALUES + 100, maxDepth: MAX_JSON_DEPTH + 2 };
/** A stop or a nonce. */
const MAX_WORD_BYTES = 4096;
/** Of all bodies that are being read or judged, so that any number of callers needs a bounded memory: five of the largest orders. */
export const MAX_BODIES_BYTES = 5 * MAX_ORDER_BYTES;
/** For a whole request, so that a caller who stops sending does not stay. */
const REQUEST_TIMEOUT_MS = 60_000;

/** What the edge may ask of a runner. Nothing else on this listener controls it. */
export interface Served {
  /** `prompt` is the order's own text of it, byte for byte. */
  offer(order: Omit<Order, "prompt">, prompt: string): Offer;
  stop(execution: Execution): void;
  /** Signs the nonce, which proves that this address is the runner's. */
  prove(nonce: string): Promise<string>;
}

interface Variables {
  /** Bytes whose digest the edge has signed. */
  body: Uint8Array;
}

const REFUSALS = {
  another_boot: [409, "another_boot", "The runner was started again since; it no longer is what it was placed on."],
  full: [429, "full", "No seat is free."],
  draining: [503, "draining", "The runner is about to stop and takes nothing new."],
  gone: [410, "gone", "This execution was stopped or has ended."],
} as const;

const refusal = (code: string, message: string) => ({ error: { code, message } });

/**
 * Reads a body of at most `max` bytes; undefined as soon as it turns out to be longer. What is left is not cancelled: that would
 * break the connection before its caller has read the refusal. The server discards it, within bounds of its own.
 */
async function readBody(body: ReadableStream<Uint8Array> | null, max: number): Promise<Uint8Array | undefined> {
  if (!body) return new Uint8Array();
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    size += read.value.length;
    if (size > max) {
      reader.releaseLock();
      return undefined;
    }
    chunks.push(read.value);
  }
  return Buffer.concat(chunks);
}

/**
 * Lets the edge's signed requests pass and sets `body`. Anybody else gets 401 before the body is read, and a body that differs from
 * the signed one gets 401 too; the reason is named in the answer and in the log.
 */
export function signed({ gate, log }: { gate: Gate; log: Log }): MiddlewareHandler<{ Variables: Variables }> {
  let inMemory = 0;
  return async function signed(c, next) {
    const refuse = (reason: string, code = "unauthorized") => {
      log.warn(`refused ${c.req.method} ${c.req.path}: ${reason}`);
      return c.json(refusal(code, `The request is not the edge's: ${reason}.`), 401);
    };
    const caller = await gate.admit(c.req.header("authorization"), c.req.method, c.req.path);
    if (!caller.ok) return refuse(caller.reason, caller.replayed ? "replayed" : "unauthorized");
    const isOrder = c.req.path === RUNNER_PATHS.executions;
    const most = isOrder ? MAX_ORDER_BYTES : MAX_WORD_BYTES;
    const tooLarge = () => c.json(refusal("payload_too_large", `The body has more than ${most} bytes.`), 413);
    // A body that does not say its length may have the most that is allowed.
    const length = Number(c.req.header("content-length") ?? most);
    if (!(length <= most)) return tooLarge();
    // A stop is short, and must be heard whatever else comes.
    if (isOrder && inMemory + length > MAX_BODIES_BYTES) {
      log.warn(`refused ${c.req.method} ${c.req.path}: too many bodies at once`);
      return c.json(refusal("full", "Too many orders are being read."), 429);
    }
    inMemory += length;
    try {
      const body = await readBody(c.req.raw.body, length);
      if (!body) return tooLarge();
      if ((await sha256(body)) !== caller.bodySha256) return refuse("body");
      c.set("body", body);
      await next();
    } finally {
      inMemory -= length;
    }
  };
}

function parseBody<T>(schema: v.GenericSchema<unknown, T>, body: Uint8Array): T | undefined {
  try {
    return v.parse(schema, JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)));
  } catch {
    return undefined;
  }
}

export function createApp({ gate, served, log }: { gate: Gate; served: Served; log: Log }): Hono<{
  Variables: Variables;
}> {
  const app = new Hono<{ Variables: Variables }>();
  const invalid = refusal("invalid_request", "The body is not of this protocol.");
  app.get(RUNNER_PATHS.health, (c) => c.text("ok"));
  app.use("/v1/*", signed({ gate, log }));

  app.post(RUNNER_PATHS.executions, (c) => {
    const body = c.get("body");
    const scan = scanJson(body, BOUNDS, "prompt");
    const order = scan.ok && scan.span ? parseBody(Order, body) : undefined;
    if (!order || !scan.ok || !scan.span) return c.json(invalid, 400);
    const prompt = new TextDecoder().decode(body.subarray(...scan.span));
    const { prompt: _, ...execution } = order;
    const answer = served.offer(execution, prompt);
    if (answer.outcome === "accepted") return c.json(answer.accepted, 202);
    const [status, code, message] = REFUSALS[answer.outcome];
    return c.json(refusal(code, message), status satisfies ContentfulStatusCode);
  });

  app.post(RUNNER_PATHS.stops, (c) => {
    const execution = parseBody(Stop, c.get("body"));
    if (!execution) return c.json(invalid, 400);
    served.stop(execution);
    return c.body(null, 204);
  });

  app.post(RUNNER_PATHS.proof, async (c) => {
    const request = parseBody(ProofRequest, c.get("body"));
    return request ? c.json({ proof: await served.prove(request.nonce) }) : c.json(invalid, 400);
  });

  app.notFound((c) => c.json(refusal("not_found", "There is nothing at this path."), 404));
  app.onError((error, c) => {
    log.error(`fault while answering ${c.req.method} ${c.req.path}`, error);
    return c.json(refusal("internal_error", "The runner had a fault of its own."), 500);
  });
  return app;
}

export interface Listener {
  /** Ends all connections. Idempotent. */
  close(): Promise<void>;
}

/** Serves until closed. Rejects with a StartError where the address can't be used. */
export function listen(
  app: Pick<Hono, "fetch">,
  { host, port }: { host: string; port: number },
  log: Log,
): Promise<Listener> {
  const server = createAdaptorServer({
    fetch: app.fetch,
    serverOptions: { requestTimeout: REQUEST_TIMEOUT_MS },
  });
  return new Promise((resolve, reject) => {
    const failed = (error: Error) => reject(new StartError(`can't listen on ${host}:${port}`, { cause: error }));
    server.once("error", failed);
    server.listen(port, host, () => {
      server.off("error", failed);
      server.on("error", (error: Error) => log.error("fault of the listener", error));
      resolve({
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            if ("closeAllConnections" in server) server.closeAllConnections();
          }),
      });
    });
  });
}
