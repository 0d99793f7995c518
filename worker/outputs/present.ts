import type { JobRecord } from "../../schemas/job.ts";
import type { JobView } from "../account/record.ts";
import { configOf } from "../config.ts";
import type { Env } from "../env.ts";
import { signOutputUrls } from "./urls.ts";

/** The public record of a job: what the account shows, with its URLs (contract section 1). */
export async function presentJob(env: Env, { record, outputs }: JobView): Promise<JobRecord> {
  const { baseUrl, outputsBaseUrl } = configOf(env);
  const self = `${baseUrl}/v1/jobs/${record.job_id}`;
  const urls = { self, cancel: `${self}/cancel` };
  if (!outputs) return { ...record, urls };
  const { files, ...address } = outputs;
  const signed = await signOutputUrls(outputsBaseUrl, env.OUTPUT_URL_KEY, { ...address, job: record.job_id }, files);
  const shown = files.map((file, n) => ({ url: signed[n] ?? "", ...file }));
  const images = shown.filter(({ kind }) => kind === "image").map(({ url }) => url);
  return { ...record, outputs: { images, files: shown }, urls };
}
