import * as v from "valibot";
import {
  type ClosedClasses,
  countClosed,
  DESCRIPTION_LIMITS,
  jsonBytes,
  RunnerDescription,
} from "../schemas/runner-protocol.ts";
import type { Engine, EngineDescription } from "./engine.ts";
import type { Log } from "./log.ts";

/** What the runner says of itself, within the bounds that the edge sets. */

export interface Description {
  /** The latest; another object only where it says something else. */
  current(): RunnerDescription;
  /** The engine has something else to say. Calls that come meanwhile are one. */
  again(): void;
}

const { names, class_length, model_length, closed_groups, group_classes, ...LIMITS } = DESCRIPTION_LIMITS;

/** Names within their bounds: a single one beyond them must not keep the runner out of the fleet. */
const fitting = (list: readonly string[], longest: number): string[] =>
  list.filter(({ length }) => length <= longest).slice(0, names);

/**
 * As many of the closed classes as there is room for, the first groups first. Of a larger group what is left goes; the group stays
 * as long as it fits with none.
 * @param room in bytes
 */
function fitClosed(closed: readonly ClosedClasses[], room: number): ClosedClasses[] {
  const kept: ClosedClasses[] = [];
  let namesLeft: number = names;
  let bytesLeft = room;
  for (const group of closed.slice(0, closed_groups)) {
    const classes: string[] = [];
    // A comma goes with each member of a list.
    bytesLeft -= jsonBytes({ ...group, classes }) + 1;
    if (bytesLeft < 0) break;
    for (const name of fitting(group.classes, class_length).slice(0, Math.min(group_classes, namesLeft))) {
      const bytes = jsonBytes(name) + 1;
      if (bytes > bytesLeft) break;
      bytesLeft -= bytes;
      classes.push(name);
    }
    namesLeft -= classes.length;
    kept.push({ ...group, classes });
  }
  return kept;
}

/** An engine's words as the edge takes them. Throws where there is no such way. */
export function described(engine: EngineDescription, version: string): RunnerDescription {
  const { name, version: engineVersion, classes, models, gpu, closed } = engine;
  const open = {
    version,
    engine: { name, version: engineVersion },
    classes: fitting(classes, class_length),
    models: fitting(models, model_length),
    ...(gpu ? { gpu: { ...gpu } } : {}),
  };
  const groups = (closed ?? []).map(({ group, reason, opened_by, ...rest }) => ({
    group: group.slice(0, LIMITS.group_length),
    classes: [...rest.classes],
    reason: reason.slice(0, LIMITS.reason_length),
    // Half a setting opens nothing.
    ...(opened_by === undefined || opened_by.length > LIMITS.opened_by_length ? {} : { opened_by }),
  }));
  const room = LIMITS.bytes - jsonBytes({ ...open, closed: [] });
  const parsed = v.safeParse(RunnerDescription, { ...open, ...(closed ? { closed: fitClosed(groups, room) } : {}) });
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  const field = issue.path?.map(({ key }) => String(key)).join(".") ?? "as a whole";
  throw new Error(`what the engine says of itself can't be told (${field}: ${issue.message})`);
}

const sizesOf = ({ classes, models, closed }: EngineDescription | RunnerDescription): string =>
  `${classes.length} classes, ${models.length} models, ${countClosed(closed)} closed classes`;

/**
 * Asks the engine what it can do, and again whenever `again` says so; `changed` is called where it then says something else.
 * Rejects when the engine can't work; later the last description stands.
 */
export async function describeEngine(
  engine: Pick<Engine, "describe">,
  { version, log, changed }: { version: string; log: Log; changed: () => void },
): Promise<Description> {
  const ask = async (): Promise<RunnerDescription> => {
    const said = await engine.describe();
    const told = described(said, version);
    if (sizesOf(said) !== sizesOf(told)) log.warn(`of ${sizesOf(said)} the fleet is told of ${sizesOf(told)}`);
    return told;
  };
  let current = await ask();
  let asking = false;
  let wanted = false;

  async function askAgain(): Promise<void> {
    asking = true;
    while (wanted) {
      wanted = false;
      try {
        const next = await ask();
        if (JSON.stringify(next) === JSON.stringify(current)) continue;
        current = next;
        log.info(`the engine describes itself anew: ${sizesOf(next)}`);
        changed();
      } catch (error) {
        log.error("the engine can't describe itself anew; its last description stands", error);
      }
    }
    asking = false;
  }

  return {
    current: () => current,
    again() {
      wanted = true;
      if (!asking) void askAgain();
    },
  };
}
