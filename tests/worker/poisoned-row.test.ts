import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { beforeEach, expect, it, vi } from "vitest";
import { PlayedRunner, playInternet } from "./played-runner.ts";
import { accountObject, newAccount, submitted } from "./service.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

it.each(["ready", "placed"])("lets no unreadable row stop its account's other jobs: %s", async (phase) => {
  const pool = `poison-${phase}`;
  const runner = await PlayedRunner.ready(pool);
  const account = await newAccount("pro", pool);
  const logged = vi.spyOn(console, "error").mockImplementation(() => {});
  await runInDurableObject(accountObject(account), (_, { storage }) => {
    storage.sql.exec(
      `INSERT INTO jobs (job_id, key_hash, phase, status, created_at, priority, fresh, body)
       VALUES ('x', 'x', ?, 'queued', 1, 0, 1, '{')`,
      phase,
    );
  });
  await evictDurableObject(accountObject(account));
  const { job_id } = await submitted(account.api_key);
  await runner.dispatched(job_id);
  expect(logged).toHaveBeenCalledWith(expect.stringContaining("row_poisoned"));
});
