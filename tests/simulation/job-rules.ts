import { MAX_ATTEMPTS } from "../../schemas/limits.ts";
import type { Job } from "../../worker/account/jobs.ts";
import { holds } from "./violation.ts";

/** What may become of a job's row in one write (design section 3, invariants 1 and 5). */
export function judgeWrite(before: Job | undefined, after: Job): void {
  if (!before) return;
  const show = () => ({ before, after });
  if (before.phase === "ended")
    holds(JSON.stringify(before) === JSON.stringify(after), "an ended job never changes", show);
  if (after.fence !== before.fence) {
    const next = before.phase === "ready" && after.phase === "placed" && after.fence === before.fence + 1;
    holds(next, "a fence rises by one, with a placement of a ready job", show);
  }
  if (after.end?.fence !== undefined)
    holds(after.end.fence === before.fence, "only the current fence ends a job", show);
  holds(after.losses <= MAX_ATTEMPTS, "a job has at most three attempts", show);
  holds(after.losses - before.losses <= 1, "a fence ends at most one attempt", show);
  if (after.losses > before.losses && before.fence_over === "reported" && before.phase === "ready")
    holds(false, "a fence that has had its say ends no other attempt", show);
  if (after.phase === "running" && before.phase !== "running")
    holds(before.phase === "placed", "only a placed job starts to run", show);
  if (after.phase === "waiting" && before.phase !== "waiting")
    holds(before.phase === "ready" && !before.ever_started, "only what never started gives its slot back", show);
  if (after.ever_started !== before.ever_started) holds(after.ever_started, "what has started stays started", show);
}
