import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openIdentity, type StoredEnrolment } from "../../gpu-runner/identity.ts";
import { aFolder, anEdge, aRunner, untilInterrupted } from "./harness.ts";

const enrolment: StoredEnrolment = {
  runner_id: "rnr_00000000000000000000",
  pool: "default",
  max_seats: 2,
  credential: "a.b.c",
  edge: "https://edge.example",
  url: "https://runner.example",
};

describe("identity", () => {
  test("is made once, for its owner only, and stays the same", async () => {
    const folder = join(await aFolder(), "data");
    const first = await openIdentity(folder);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    expect((await stat(join(folder, "identity.json"))).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(["identity.json"]);
    expect((await openIdentity(folder)).publicJwk).toEqual(first.publicJwk);
  });

  test("keeps an enrolment for one pair of addresses, with its latest credential", async () => {
    const folder = await aFolder();
    const identity = await openIdentity(folder);
    await Promise.all([identity.enrolled(enrolment), identity.enrolled({ ...enrolment, credential: "d.e.f" })]);
    const again = await openIdentity(folder);
    expect(again.enrolment(enrolment.edge, enrolment.url)?.credential).toBe("d.e.f");
    expect(again.enrolment(enrolment.edge, "https://other.example")).toBeUndefined();
    expect(again.enrolment("https://other.example", enrolment.url)).toBeUndefined();
  });

  test.each(["", "{", "[]", '{"private_jwk":{}}'])(
    "that is damaged (%j) is an error and stays as it is",
    async (text) => {
      const folder = await aFolder();
      const path = join(folder, "identity.json");
      await writeFile(path, text);
      await expect(openIdentity(folder)).rejects.toThrow(/identity\.json is damaged/);
      expect(await readFile(path, "utf8")).toBe(text);
    },
  );

  test("whose key was cut short is an error that does not quote it", async () => {
    const folder = await aFolder();
    await openIdentity(folder);
    const path = join(folder, "identity.json");
    const text = (await readFile(path, "utf8")).replace(/("d": ")(.{10})[^"]*/, "$1$2");
    await writeFile(path, text);
    await expect(openIdentity(folder)).rejects.toThrow(/holds no usable key/);
  });

  test("that can't be read is an error, not a new identity", async () => {
    const folder = await aFolder();
    await mkdir(join(folder, "identity.json"));
    await expect(openIdentity(folder)).rejects.toThrow(/can't be read/);
    await chmod(folder, 0o700);
  });
});

describe("enrolment", () => {
  test("happens once, with a proof of the URL", async () => {
    const edge = await anEdge();
    const { runner, data, url } = await aRunner(untilInterrupted, { edge });
    await runner.drain();
    await aRunner(untilInterrupted, { edge, data, port: Number(new URL(url).port) });
    expect(edge.enrolments).toMatchObject([{ url, name: "test" }]);
    expect(edge.refused).toEqual([]);
  });

  test("with a token that the edge does not know ends the start with its words", async () => {
    const token = `dre_default_${"x".repeat(43)}`;
    await expect(aRunner(untilInterrupted, { token })).rejects.toThrow(/refused the enrolment \(401\): unknown token/);
  });
});
