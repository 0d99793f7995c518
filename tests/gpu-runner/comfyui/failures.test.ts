import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { executionFailure, logLinesOf, validationFailure } from "../../../gpu-runner/engines/comfyui/failures.ts";
import { scrub, shorten } from "../../../gpu-runner/engines/comfyui/scrub.ts";
import { acceptedPlan, empty, save, smallInfo } from "./small-info.ts";

const scale = { class_type: "ImageScale", inputs: { image: ["1", 0], crop: "sharp" } };
const plan = acceptedPlan({ 1: empty, 2: scale, 3: save("2") });
const info = smallInfo();

/** A refusal as ComfyUI words it: the list of its folder in every text. */
const refusal = (id: string, type: string, input_name: string) => ({
  error: { type: "prompt_outputs_failed_validation", message: "secret.safetensors", details: "secret.safetensors" },
  node_errors: {
    [id]: {
      class_type: "ImageScale",
      errors: [
        {
          type,
          message: "secret.safetensors",
          details: `${input_name}: not in ['secret.safetensors']`,
          extra_info: { input_name, input_config: [["secret.safetensors"]], traceback: ["/root/secret.py"] },
        },
      ],
    },
  },
});

describe("A refusal", () => {
  it("is told in words of its own, with node, class, field and value, and none of the server's", () => {
    const failure = validationFailure(refusal("2", "value_not_in_list", "crop"), plan, info);
    expect(failure).toEqual({
      code: "missing_model",
      message: 'Node 2 (ImageScale): No value "sharp" is known for the input crop here.',
      node_id: "2",
      details: {
        node_errors: {
          2: [
            {
              field: "crop",
              reason: "value_not_in_list",
              message: 'No value "sharp" is known for the input crop here.',
            },
          ],
        },
      },
    });
  });

  it.each([
    "required_input_missing",
    "value_smaller_than_min",
    "value_bigger_than_max",
    "invalid_input_type",
    "return_type_mismatch",
    "bad_linked_input",
    "custom_validation_failed",
    "dependency_cycle",
    "exception_during_validation",
    "something_of_tomorrow",
    "a type / with [secret] words",
  ])("of the type %j is invalid_prompt, and holds no word of the server", (type) => {
    const failure = validationFailure(refusal("1", type, "width"), plan, info);
    expect(failure).toMatchObject({ code: "invalid_prompt", node_id: "1" });
    expect(JSON.stringify(failure)).not.toMatch(/secret|root/);
  });

  it("tells the bounds that the class has", () => {
    const small = validationFailure(refusal("1", "value_smaller_than_min", "width"), plan, info);
    const big = validationFailure(refusal("1", "value_bigger_than_max", "width"), plan, info);
    expect([small.message, big.message]).toEqual([
      "Node 1 (EmptyImage): The value 8 of the input width is too small: at least 1.",
      "Node 1 (EmptyImage): The value 8 of the input width is too large: at most 16384.",
    ]);
  });

  it("names no node and no input that the graph and its classes don't have", () => {
    const strange = validationFailure(refusal("/root/7", "invalid_input_type", "width"), plan, info);
    expect(strange).toEqual({
      code: "invalid_prompt",
      message: "The engine does not accept this workflow (prompt_outputs_failed_validation).",
    });
    const field = validationFailure(refusal("1", "invalid_input_type", "/root/input"), plan, info);
    expect(JSON.stringify(field)).not.toContain("root");
  });

  it("stays within a job's record, however many errors there are", () => {
    const inputs = Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`f${n}`.padEnd(500, "x"), "v"]));
    const wide = acceptedPlan({ 1: empty, 2: save("1", inputs) });
    const errors = Object.keys(inputs).map((input_name) => ({
      type: "invalid_input_type",
      extra_info: { input_name },
    }));
    const failure = validationFailure({ node_errors: { 2: { errors } } }, wide, info);
    expect(failure.details).toBeDefined();
    expect(JSON.stringify(failure.details).length).toBeLessThanOrEqual(8_192);
    expect(Buffer.byteLength(failure.message)).toBeLessThanOrEqual(2_048);
  });

  it("of any shape at all is told somehow", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom("error", "node_errors", "x"), fc.jsonValue()), (body) => {
        expect(["invalid_prompt", "missing_model"]).toContain(validationFailure(body, plan, info).code);
      }),
    );
    for (const entry of [null, 7, [], { errors: null }, { errors: [null, { type: 7, extra_info: [] }] }])
      expect(validationFailure({ node_errors: { 1: entry } }, plan, info).code).toBe("invalid_prompt");
  });
});

const raised = (data: object, known: ReadonlyMap<string, string> = new Map()) =>
  executionFailure({ node_id: "2", node_type: "ImageScale", exception_type: "ValueError", ...data }, plan, known);

describe("An exception", () => {
  it("is told with node, class, message and the last frames as file:line", () => {
    const traceback = Array.from(
      { length: 9 },
      (_, n) => `  File "/srv/my comfy/nodes_${n}.py", line ${n}, in run\n    x\n`,
    );
    expect(raised({ exception_message: "bad size\n", traceback })).toEqual({
      code: "execution_failed",
      message: "Node 2 (ImageScale) failed: bad size",
      node_id: "2",
      details: {
        node_class: "ImageScale",
        exception_type: "ValueError",
        frames: [3, 4, 5, 6, 7, 8].map((n) => `nodes_${n}.py:${n} run`),
      },
    });
  });

  it("of a pack's own type does not tell where the pack lies", () => {
    const exception_type = "/srv/comfy ui/custom_nodes/my_x_pack.errors.Odd";
    const failure = raised({ exception_type, exception_message: " " });
    expect(failure.message).toBe("Node 2 (ImageScale) failed: my_x_pack.errors.Odd");
    expect(failure.details?.exception_type).toBe("my_x_pack.errors.Odd");
  });

  it("inside a node's sub-graph is that node's; one of nobody's node is nobody's", () => {
    expect(raised({ node_id: "2.0.0.5" })).toMatchObject({ node_id: "2" });
    const strange = raised({ node_id: "77" });
    expect(strange).not.toHaveProperty("node_id");
    expect(strange.message).toBe("A node failed: ValueError");
  });

  it.each(["torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError", "MemoryError"])(
    "of the type %s is out_of_memory",
    (type) => {
      expect(raised({ exception_type: type, exception_message: "" }).code).toBe("out_of_memory");
    },
  );

  it("that only speaks of memory is not", () => {
    expect(raised({ exception_message: "MemoryError is my name" }).code).toBe("execution_failed");
  });

  it("has at most 2 KiB, in whole characters", () => {
    const { message } = raised({ exception_message: "🦊".repeat(5_000) });
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(2_048);
    expect(message).toMatch(/🦊…$/);
  });

  it("of any shape at all is told somehow", () => {
    const keys = fc.constantFrom("node_id", "node_type", "exception_type", "exception_message", "traceback");
    fc.assert(
      fc.property(fc.dictionary(keys, fc.jsonValue()), (data) => {
        expect(executionFailure(data, plan, new Map()).message).not.toBe("");
        expect(logLinesOf(data).length).toBeGreaterThanOrEqual(3);
      }),
    );
  });
});

describe("A message loses", () => {
  it.each([
    ["No such file: '/home/ann/x.png'", "No such file: 'x.png'"],
    ["No such file: /home/ann/x.png, sorry", "No such file: x.png, sorry"],
    ['open("/home/o\'brien/my models/x.bin")', 'open("x.bin")'],
    ["path=/home/ann/x.png", "path=x.png"],
    ["error:/home/ann/x.png", "error:x.png"],
    ["loading.../home/ann/x.png", "loading.x.png"],
    ["->/home/ann/x.png", "->x.png"],
    ["at /Users/Ann Lee/ComfyUI/x.png now", "at x.png now"],
    ["in ../../models/secret/x.png", "in x.png"],
    ["in '../../models/secret/x.png'", "in 'x.png'"],
    ["~/ComfyUI/x.png", "x.png"],
    ["/opt//comfy///x/", "x"],
    ["C:\\Users\\Ann Lee\\x.png gone", "x.png gone"],
    ["C:/Users/Ann/x.png gone", "x.png gone"],
    ["'C:\\\\Users\\\\Ann\\\\x.png'", "'x.png'"],
    ["\\\\server\\share\\x.png gone", "x.png gone"],
    ["'\\\\\\\\server\\\\share\\\\my x.png'", "'my x.png'"],
    ["file:///home/ann/x.png", "a file"],
    ["<Model object at 0x7f3a5c0d1e80>", "<Model object at 0x…>"],
    ["no route to 10.1.2.3:8188, 192.168.0.4", "no route to an address, an address"],
  ])("the host's words: %j", (text, left) => {
    expect(scrub(text)).toBe(left);
  });

  it.each([
    "3/4 of a and/or b",
    "https://example.com/a/b.png?x=1",
    "sizes 64 / 32",
    "Unexpected '/'",
    "CUDA 10.2.89, torch 2.10.0",
    "colour 0xffffff",
    "expected [1, 2] got {3: 4}",
    "s3://bucket/key",
  ])("nothing of %j", (text) => {
    expect(scrub(text)).toBe(text);
  });

  it("a folder's name wherever its path stands, between any words", () => {
    const around = fc.constantFrom(" ", ": ", "=", "(", "'", '"', "`", ", ", "\n", "[", ":", "-", "...");
    const folder = fc.constantFrom(
      "/srv/hidden",
      "/srv/my hidden",
      "~/hidden",
      "../hidden",
      "C:\\hidden",
      "D:/hidden",
      "\\\\hidden\\c",
    );
    fc.assert(
      fc.property(around, folder, around, (before, path, after) => {
        expect(scrub(`failed${before}${path}${path.includes("\\") ? "\\" : "/"}x.png${after}`)).not.toContain("hidden");
      }),
    );
  });

  it("the run's own names, whatever stands for them", () => {
    const known = new Map([
      ["darkroom/77/", ""],
      ["darkroom-5.png", "the file of $& image"],
    ]);
    expect(scrub("darkroom/77/a.png, darkroom-5.png", known)).toBe("a.png, the file of $& image");
  });

  it.each(["'/", "/a", " /a", "/a b c", "C:\\", "C:\\a b", "\\\\", "~/", "\"/'/`/", "../", 'File "', "0x1", "10."])(
    "no time over megabytes of %j",
    (part) => {
      const text = part.repeat(2_000_000 / part.length);
      const started = performance.now();
      scrub(text);
      scrub(`'/${text}`);
      raised({ exception_message: text, traceback: [text] });
      expect(performance.now() - started).toBeLessThan(2_000);
    },
  );
});

it("A text is cut to bytes between characters, and left alone where it fits.", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 3, max: 50 }), (text, bytes) => {
      const short = shorten(text, bytes);
      expect(Buffer.byteLength(short)).toBeLessThanOrEqual(bytes);
      if (Buffer.byteLength(text) <= bytes) expect(short).toBe(text);
      else expect(short.endsWith("…") && short.isWellFormed()).toBe(true);
    }),
  );
});
