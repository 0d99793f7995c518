import { expect, it } from "vitest";
import { newAccount, submit } from "../worker/service.ts";

it("takes any class while no runner is enrolled", async () => {
  const { api_key } = await newAccount("free");
  const prompt = { "1": { class_type: "NobodyHasThis", inputs: {} } };
  expect((await submit(api_key, { prompt })).status).toBe(202);
});
