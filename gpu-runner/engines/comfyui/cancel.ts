import type { Client } from "./client.ts";
import type { Abilities } from "./version.ts";

/**
 * Asks the server once to drop exactly this prompt, wherever it is: waiting, running or unknown. A stop can be lost (a prompt
 * that is just being taken clears it), so the caller repeats this until the prompt is in no queue. Rejects with Unreachable.
 */
export async function cancelPrompt(client: Client, prompt_id: string, abilities: Abilities): Promise<void> {
  if (abilities.cancel && (await client.cancel(prompt_id))) return;
  await client.deleteQueued(prompt_id);
  // A server that should know the call and does not is older than it was taken for.
  const targeted = abilities.targetedInterrupt && !abilities.cancel;
  if (!targeted) {
    // Its interrupt stops whatever runs: it is sent only while that is this prompt.
    const { running } = await client.queue();
    if (running.length !== 1 || running[0] !== prompt_id) return;
  }
  await client.interrupt(prompt_id);
}
