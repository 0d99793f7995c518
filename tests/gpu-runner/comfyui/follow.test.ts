import { describe, expect, it } from "vitest";
import { Bell } from "../../../gpu-runner/engines/comfyui/bell.ts";
import {
  type Client,
  type Device,
  type HistoryEntry,
  type Queue,
  Unreachable,
} from "../../../gpu-runner/engines/comfyui/client.ts";
import { type Ending, type Followed, follow } from "../../../gpu-runner/engines/comfyui/follow.ts";
import { TIMINGS, type Timings } from "../../../gpu-runner/engines/comfyui/timings.ts";
import { type Abilities, abilitiesOf } from "../../../gpu-runner/engines/comfyui/version.ts";

const NEW = abilitiesOf("0.33.0");
const OLD = abilitiesOf("0.3.50");
/** Looks follow one another quickly, and none is ever late enough to count as silence. */
const QUICK: Timings = { ...TIMINGS, poll_first_ms: 1, poll_most_ms: 2, queue_ms: 0, blind_stop_ms: 0 };

const ENTRY: HistoryEntry = { outputs: {}, succeeded: true, messages: [], displayNodes: new Map() };
const RUNNING = ["p"];
const GPU: Device = { name: "cuda:0", type: "cuda", vram_total: 8e9, vram_free: 8e9 };

const refused = () => new Unreachable("/queue", Object.assign(new Error("connect"), { code: "ECONNREFUSED" }));
const broken = () => new Unreachable("/queue", new Error("other side closed"));

/** A server that answers as it is told. It notes what it is asked and told, without the questions of every look. */
interface Script {
  history?(): Promise<HistoryEntry | undefined> | HistoryEntry | undefined;
  running?(): readonly string[];
  pending?(): readonly string[];
  free_bytes?(): number;
  /** Of the call that newer servers have. */
  cancel?(): boolean;
}

function scripted(script: Script): { readonly client: Client; readonly told: string[] } {
  const told: string[] = [];
  const not = (): never => {
    throw new Error("not asked for here");
  };
  const client: Client = {
    url: "http://server.test",
    history: async () => script.history?.(),
    async queue(): Promise<Queue> {
      return { running: script.running?.() ?? [], pending: script.pending?.() ?? [], clients: new Map() };
    },
    async systemStats() {
      return { version: "0.33.0", argv: [], devices: [{ ...GPU, vram_free: script.free_bytes?.() ?? GPU.vram_free }] };
    },
    deleteQueued: async (id) => void told.push(`delete ${id}`),
    interrupt: async (id) => void told.push(`interrupt ${id}`),
    async cancel(id) {
      told.push(`cancel ${id}`);
      return script.cancel?.() ?? true;
    },
    maxUpload: not,
    objectInfo: not,
    submit: not,
    forget: not,
    free: not,
    upload: not,
    view: not,
  };
  return { client, told };
}

interface How extends Partial<Omit<Followed, "client" | "timings">> {
  readonly timings?: Partial<Timings>;
  readonly abilities?: Abilities;
}

const following = (client: Client, { timings, ...how }: How = {}): Promise<Ending> =>
  follow({
    client,
    prompt_id: "p",
    abilities: NEW,
    signal: new AbortController().signal,
    bell: new Bell(),
    heard: () => 0,
    ...how,
    timings: { ...QUICK, ...timings },
  });

/** Counts its calls; `at(n)` is what the n-th one gives, from 0. */
const each = <T>(at: (n: number) => T): (() => T) => {
  let calls = 0;
  return () => at(calls++);
};

const thrown = (error: Error): never => {
  throw error;
};

describe("A prompt that is followed", () => {
  it("ends with its entry in the history, whatever the queue says", async () => {
    const { client } = scripted({ history: each((n) => (n > 4 ? ENTRY : undefined)), running: () => RUNNING });
    expect(await following(client)).toEqual({ how: "entry", entry: ENTRY });
  });

  it("that leaves the queue for the history between two questions has not vanished", async () => {
    let left = false;
    const { client } = scripted({
      // The entry is there from the moment on at which the queue has been seen without it.
      history: () => (left ? ENTRY : undefined),
      running: () => {
        left = true;
        return [];
      },
    });
    expect((await following(client)).how).toBe("entry");
  });

  it("that one look does not find and the next does has not vanished", async () => {
    let looks = 0;
    const { client } = scripted({
      history: () => (looks >= 8 ? ENTRY : undefined),
      running: () => (looks++ % 2 === 0 ? [] : RUNNING),
    });
    expect((await following(client)).how).toBe("entry");
  });

  it("that two looks do not find has vanished", async () => {
    const { client } = scripted({});
    expect(await following(client)).toEqual({ how: "vanished" });
  });

  it("whose submission had no answer is waited for before it counts as vanished", async () => {
    let looks = 0;
    const { client } = scripted({
      history: () => (looks > 12 ? ENTRY : undefined),
      running: () => (looks++ < 10 ? [] : RUNNING),
    });
    expect((await following(client, { absent_ms: 60_000 })).how).toBe("entry");
  });

  it("whose submission had no answer vanishes as any other once it was seen", async () => {
    const { client } = scripted({ running: each((n) => (n === 2 ? RUNNING : [])) });
    expect(await following(client, { absent_ms: 60_000 })).toEqual({ how: "vanished" });
  });

  it("whose submission had no answer, and never comes, has vanished after a while", async () => {
    const { client } = scripted({});
    const started = performance.now();
    expect(await following(client, { absent_ms: 40 })).toEqual({ how: "vanished" });
    expect(performance.now() - started).toBeGreaterThanOrEqual(40);
  });

  it("is gone with a server that refuses two calls running, and not with one that breaks them off", async () => {
    const gone = scripted({ running: () => thrown(refused()) });
    expect(await following(gone.client)).toEqual({ how: "gone" });
    const faults = [refused, broken, broken, refused, broken];
    const shaky = scripted({
      history: each((n) => {
        const fault = faults[n];
        return fault ? thrown(fault()) : ENTRY;
      }),
    });
    expect((await following(shaky.client)).how).toBe("entry");
  });

  it("rejects for what is no fault of the server", async () => {
    const { client } = scripted({ history: () => thrown(new TypeError("a mistake")) });
    await expect(following(client)).rejects.toThrow("a mistake");
  });

  it("is looked at at once when the bell rings", async () => {
    const bell = new Bell();
    let ended = false;
    const { client } = scripted({ history: () => (ended ? ENTRY : undefined), running: () => RUNNING });
    const ending = following(client, { bell, timings: { poll_first_ms: 600_000, poll_most_ms: 600_000 } });
    ended = true;
    bell.ring();
    expect((await ending).how).toBe("entry");
  });
});

describe("Silence", () => {
  const SHORT = { stall_ms: 300, gpu_sample_ms: 0 };

  it("ends what neither speaks nor moves, also where a call is never answered", async () => {
    const still = scripted({ running: () => RUNNING });
    expect(await following(still.client, { timings: SHORT })).toEqual({ how: "silent" });
    const hanging = scripted({ history: () => new Promise(() => {}) });
    expect(await following(hanging.client, { timings: SHORT })).toEqual({ how: "silent" });
  });

  it.each<[string, Script]>([
    ["the queue moves", { running: () => RUNNING, pending: each((n) => Array.from({ length: n % 2 }, String)) }],
    ["the GPU's memory moves", { running: () => RUNNING, free_bytes: each((n) => (n % 2) * 1e9) }],
  ])("is broken where %s", async (_, script) => {
    const started = performance.now();
    const { client } = scripted({
      ...script,
      history: () => (performance.now() - started > 3 * SHORT.stall_ms ? ENTRY : undefined),
    });
    expect((await following(client, { timings: SHORT })).how).toBe("entry");
  });

  it("is not broken by the noise of a driver", async () => {
    const { client } = scripted({ running: () => RUNNING, free_bytes: each((n) => 1e9 + (n % 2) * 1000) });
    expect(await following(client, { timings: SHORT })).toEqual({ how: "silent" });
  });
});

describe("A prompt that is to stop", () => {
  const signal = AbortSignal.abort();

  it("is stopped again and again, until it is over", async () => {
    const { client, told } = scripted({ history: each((n) => (n > 9 ? ENTRY : undefined)), running: () => RUNNING });
    expect((await following(client, { signal })).how).toBe("entry");
    expect(new Set(told)).toEqual(new Set(["cancel p"]));
    expect(told.length).toBeGreaterThan(2);
  });

  it("is stopped by its name where the server has no call for both places", async () => {
    const { client, told } = scripted({ history: each((n) => (n > 3 ? ENTRY : undefined)), running: () => RUNNING });
    await following(client, { signal, abilities: { ...OLD, targetedInterrupt: true } });
    expect(told.slice(0, 2)).toEqual(["delete p", "interrupt p"]);
  });

  it.each([
    ["stops whatever runs", { ...OLD, targetedInterrupt: false }],
    ["is older than its version says", NEW],
  ])("is interrupted only while it alone runs, where the server %s", async (_, abilities) => {
    let looks = 0;
    const { client, told } = scripted({
      cancel: () => false,
      history: () => (looks > 20 ? ENTRY : undefined),
      // Another one's turn comes first.
      running: () => (looks++ < 10 ? ["another"] : RUNNING),
      pending: () => (looks < 10 ? ["p"] : []),
    });
    const during: string[] = [];
    const watched: Client = {
      ...client,
      async interrupt(id) {
        during.push(looks <= 10 ? "another's" : "its own");
        await client.interrupt(id);
      },
    };
    await following(watched, { signal, abilities });
    expect(new Set(during)).toEqual(new Set(["its own"]));
    expect(told).toContain("interrupt p");
  });
});
