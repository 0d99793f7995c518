import { cancel, cancelMany, type JobsWorld, job, jobs } from "./jobs.ts";
import { shownItem } from "./history.ts";
import type { Folders } from "./folders.ts";
import type { KnobSettings } from "./knobs.ts";
import { features, MODEL_FOLDERS } from "./machine-stats.ts";
import { Trouble } from "./python-error.ts";
import { isObject, type Json, type JsonObject, loads } from "./python-json.ts";
import { type Call, empty, json, type Reply, text } from "./reply.ts";
import type { ServerProcess } from "./server-process.ts";
import { interruptTarget, submit } from "./submit.ts";
import { upload } from "./upload.ts";
import { validatePrompt } from "./validation.ts";
import { view } from "./view.ts";

export interface World {
  readonly process: ServerProcess;
  readonly folders: Folders;
  readonly knobs: KnobSettings;
  readonly maxUploadSize_bytes: number;
  stats(): Json;
}

export interface Route {
  readonly methods: readonly string[];
  readonly path: RegExp;
  /** Only with the prefix `/api`. */
  readonly apiOnly?: boolean;
  isThere?(world: World): boolean;
  handle(call: Call, world: World): Reply | Promise<Reply>;
}

/** The body as JSON. Throws a Trouble where it is none. */
function parsed({ body }: Call): Json {
  try {
    return loads(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new Trouble("JSONDecodeError");
  }
}

function object(call: Call): JsonObject {
  const body = parsed(call);
  if (!isObject(body)) throw new Trouble("no object");
  return body;
}

const strings = (value: Json | undefined): readonly string[] => (Array.isArray(value) ? value.map(String) : []);

function whole(query: URLSearchParams, name: string): number | undefined {
  const given = query.get(name);
  if (given === null) return undefined;
  if (!/^\s*[+-]?\d+\s*$/.test(given)) throw new Trouble(`invalid literal for int() with base 10: '${given}'`);
  return Number(given);
}

const GET = ["GET"];
const POST = ["POST"];

const prompt: Route = {
  methods: ["GET", "POST"],
  path: /^\/prompt$/,
  handle(call, { process, folders, knobs }) {
    if (call.method !== "POST") return json({ exec_info: { queue_remaining: process.queue.remaining } });
    const { behaviour, classes, queue } = process;
    const { status, body } = submit(parsed(call), {
      behaviour,
      nextNumber: () => process.nextNumber(),
      validate: (graph, targets) => validatePrompt(graph, targets, { behaviour, classes, folders }),
      put: (item) => queue.put({ ...item, outputs: knobs.ordersOutputs(item.outputs) }),
    });
    return json(body, status);
  },
};

const queue: Route = {
  methods: ["GET", "POST"],
  path: /^\/queue$/,
  handle(call, { process }) {
    const { running, pending } = process.queue;
    if (call.method !== "POST") {
      const queue_running = running === undefined ? [] : [shownItem(running)];
      return json({ queue_running, queue_pending: pending.map(shownItem) });
    }
    const body = object(call);
    if (body.clear === true) process.queue.clear();
    for (const id of strings(body.delete)) process.queue.delete(id);
    return empty();
  },
};

const history: Route = {
  methods: ["GET", "POST"],
  path: /^\/history$/,
  handle(call, { process }) {
    if (call.method !== "POST") {
      return json(process.history.show(whole(call.query, "max_items"), whole(call.query, "offset")));
    }
    const body = object(call);
    if (body.clear === true) process.history.clear();
    for (const id of strings(body.delete)) process.history.delete(id);
    return empty();
  },
};

const interrupt: Route = {
  methods: POST,
  path: /^\/interrupt$/,
  handle(call, { process }) {
    let body: Json | undefined;
    try {
      body = loads(call.body.toString());
    } catch {
      // Taken for an interrupt of whatever runs.
    }
    const target = process.behaviour.targetedInterrupt ? interruptTarget(body) : undefined;
    if (target === undefined || process.queue.running?.prompt_id === target) process.interrupt();
    return empty();
  },
};

const free: Route = {
  methods: POST,
  path: /^\/free$/,
  handle(call, { process }) {
    if (object(call).free_memory === true) process.freeMemory();
    return empty();
  },
};

const objectInfo: Route = {
  methods: GET,
  path: /^\/object_info(?:\/([^/]+))?$/,
  handle({ caught: [name] }, { process: { classes } }) {
    const names = name === undefined ? classes.names : classes.find(name) === undefined ? [] : [name];
    return json(Object.fromEntries(names.map((one) => [one, classes.info(one) as unknown as JsonObject])));
  },
};

function world({ process }: World): JobsWorld {
  const { behaviour, queue, history } = process;
  return { behaviour, queue, history, interrupt: () => process.interrupt() };
}

const JOB_ROUTES: readonly Route[] = [
  { methods: GET, path: /^\/jobs$/, handle: ({ query }, of) => jobs(world(of), query) },
  {
    methods: POST,
    path: /^\/jobs\/cancel$/,
    isThere: ({ process }) => process.behaviour.cancel,
    handle: (call, of) => cancelMany(world(of), object(call)),
  },
  { methods: GET, path: /^\/jobs\/([^/]+)$/, handle: ({ caught }, of) => job(world(of), caught[0] ?? "") },
  {
    methods: POST,
    path: /^\/jobs\/([^/]+)\/cancel$/,
    isThere: ({ process }) => process.behaviour.cancel,
    handle: ({ caught }, of) => cancel(world(of), caught[0] ?? ""),
  },
];

const NO_UPGRADE = 'No WebSocket UPGRADE hdr: None\n Can "Upgrade" only to "WebSocket".';

export const ROUTES: readonly Route[] = [
  prompt,
  queue,
  history,
  {
    methods: GET,
    path: /^\/history\/([^/]+)$/,
    handle: ({ caught }, { process }) => json(process.history.showOne(caught[0] ?? "")),
  },
  interrupt,
  free,
  objectInfo,
  { methods: GET, path: /^\/view$/, handle: (call, { folders, knobs }) => view(call, folders, knobs) },
  { methods: POST, path: /^\/upload\/image$/, handle: (call, { folders, knobs }) => upload(call, folders, knobs) },
  { methods: GET, path: /^\/system_stats$/, handle: (_, { stats }) => json(stats()) },
  {
    methods: GET,
    path: /^\/features$/,
    isThere: ({ process }) => process.behaviour.features,
    handle: (_, { maxUploadSize_bytes }) => json(features(maxUploadSize_bytes)),
  },
  { methods: GET, path: /^\/embeddings$/, handle: () => json([]) },
  { methods: GET, path: /^\/extensions$/, handle: () => json([]) },
  { methods: GET, path: /^\/users$/, handle: () => json({ storage: "server", migrated: false }) },
  { methods: GET, path: /^\/models$/, handle: () => json([...MODEL_FOLDERS]) },
  {
    methods: GET,
    path: /^\/models\/([^/]+)$/,
    handle: ({ caught }) => (MODEL_FOLDERS.includes(caught[0] ?? "") ? json([]) : empty(404)),
  },
  { methods: GET, path: /^\/ws$/, handle: () => text(400, NO_UPGRADE) },
  ...JOB_ROUTES.map((route) => ({ isThere: ({ process }: World) => process.behaviour.jobs, ...route, apiOnly: true })),
];
