import { startFakeComfyui } from "../../fakes/comfyui/server.ts";
import { engineContract } from "../engine-contract.ts";
import { contractPrompts, coreTable } from "./core-table.ts";
import { freshImage, saveImage, startSubject } from "./subject.ts";

const ALLOW = "core,recorder_nodes";

/** Reports each 20 ms: a stop is seen at the next report. */
const slow = () => ({
  1: freshImage(),
  2: { class_type: "TestSlow", inputs: { image: ["1", 0], steps: 200, step_ms: 20, preview: false } },
  3: saveImage("2"),
});

const failing = () => ({
  graph: {
    1: freshImage(),
    2: { class_type: "TestFail", inputs: { image: ["1", 0], kind: "key", message: "no such key" } },
    3: saveImage("2"),
  },
  node_class: "TestFail",
});

const startFake = async (version = "0.33.0") => {
  const fake = await startFakeComfyui({ version });
  const { url, folder } = fake;
  return { url, folder, allow: ALLOW, slow, failing, isReal: false, close: () => fake.close() };
};

engineContract("ComfyUI", async () => {
  const fake = await startFakeComfyui();
  const { url, folder } = fake;
  const { engine, close } = await startSubject({ servers: [{ url, folder }], allow: ALLOW });
  await engine.describe();
  return {
    engine,
    prompts: contractPrompts({ slow, failing }),
    async dispose() {
      await close();
      await fake.close();
    },
  };
});

coreTable("the fake server, whose folder is known", () => startFake());
coreTable("the fake server, whose files can only be emptied", async () => {
  const { folder: _, ...server } = await startFake();
  return server;
});
for (const version of ["0.27.0", "0.8.0", "0.3.64", "0.3.40"])
  coreTable(`the fake server as ComfyUI ${version}`, () => startFake(version));
