import type { Random } from "./random.ts";

/** Bodies of `POST /v1/jobs` that are wrong, odd or too much. */

const GOOD_PROMPT =
  '{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":255}},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"f"}}}';

const NAMES = [
  "prompt",
  "webhook_url",
  "metadata",
  "timeout_s",
  "queue_timeout_s",
  "priority",
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "then",
  "toJSON",
  "class_type",
  "inputs",
  "_meta",
  "",
  "\\u0000",
  "\\ud800",
  "nodes",
  "links",
  "1",
  "é",
  "😀",
] as const;

const SCALARS = [
  "null",
  "true",
  "false",
  "0",
  "-0",
  "-1",
  "1.5",
  "1e400",
  "-1e400",
  "1e-400",
  "18446744073709551616",
  "9007199254740993",
  "600",
  "3600",
  "10",
  '""',
  '"x"',
  '"__proto__"',
  '"\\u0000"',
  '"\\ud800"',
  '"\\udfff\\ud800"',
  '"\\uD83D\\uDE00"',
  '"../../etc/passwd"',
  '"1"',
  "[]",
  "{}",
  '["1",0]',
  '["1",-1]',
  '["1",1e99]',
  '["__proto__",0]',
  '["1",0,0]',
  '[["1",0]]',
] as const;

const BROKEN = [
  "NaN",
  "Infinity",
  "undefined",
  "01",
  "+1",
  ".5",
  "1.",
  "'x'",
  '"\\x41"',
  '"\n"',
  '"\t"',
  '"unended',
  "[1,]",
  "{,}",
  "{1:2}",
  "[",
  "]",
  "/*c*/1",
  "\ufeff1",
  "tru",
  "nul",
] as const;

const WEBHOOKS = [
  "http://example.org/",
  "https://127.0.0.1/",
  "https://[::1]/",
  "https://0x7f000001/",
  "https://2130706433/",
  "https://[::ffff:10.0.0.1]/",
  "https://user:pw@example.org/",
  "https://example.org:22/",
  "https://example.org\\\\@evil/",
  "https://example.org/\\u0000",
  "https://example.org/\\ud800",
  "https://localhost./x",
  "https://a.internal/",
  "javascript:alert(1)",
  "https://",
  "//x",
  " https://example.org/",
  "https://xn--/",
  "https://%00.example.org/",
  "https://exa mple.org/",
  "https://\\u202e.example.org/",
  "https://1.1.1/",
  "https://example.org:99999/",
] as const;

function value(random: Random, depth: number): string {
  const roll = random.next();
  if (depth <= 0 || roll < 0.45) return random.pick(SCALARS);
  if (roll < 0.5) return random.pick(BROKEN);
  const items = Array.from({ length: random.int(0, 4) }, () => value(random, depth - 1));
  if (roll < 0.65) return `[${items.join(",")}]`;
  return `{${items.map((item) => `"${random.pick(NAMES)}":${item}`).join(",")}}`;
}

const node = (random: Random): string =>
  random.pick([
    '{"class_type":"EmptyImage","inputs":{}}',
    `{"class_type":${value(random, 1)},"inputs":${value(random, 2)}}`,
    `{"class_type":"SaveImage","inputs":{"images":${value(random, 1)},"${random.pick(NAMES)}":${value(random, 2)}}}`,
    `{"class_type":"EmptyImage","class_type":${value(random, 0)},"inputs":{},"inputs":${value(random, 1)}}`,
    '{"class_type":"NoSuchClass","inputs":{}}',
    value(random, 2),
  ]);

function prompt(random: Random): string {
  if (random.chance(0.3)) return GOOD_PROMPT;
  const nodes = Array.from({ length: random.int(0, 5) }, () => `"${random.pick(NAMES)}":${node(random)}`);
  return random.chance(0.1) ? value(random, 3) : `{${nodes.join(",")}}`;
}

function submission(random: Random): string {
  const fields = [`"prompt":${prompt(random)}`];
  for (const name of ["metadata", "timeout_s", "queue_timeout_s", "priority"]) {
    if (random.chance(0.25)) fields.push(`"${name}":${value(random, 2)}`);
  }
  if (random.chance(0.25)) fields.push(`"webhook_url":"${random.pick(WEBHOOKS)}"`);
  if (random.chance(0.1)) fields.push(`"${random.pick(NAMES)}":${value(random, 3)}`);
  if (random.chance(0.1)) fields.reverse();
  return `{${fields.join(random.chance(0.05) ? ",," : ",")}}`;
}

/** Large ones are rare: they cost a thousand times what the others do. */
function large(random: Random): string {
  const n = random.int(1_000, 30_000);
  return random.pick([
    () => `${"[".repeat(n)}${"]".repeat(n)}`,
    () => `{"prompt":${'{"a":'.repeat(n)}1${"}".repeat(n)}}`,
    () => `[${"{},".repeat(n * 10)}{}]`,
    () => `{"prompt":${GOOD_PROMPT},"x":"${"\\".repeat(n * 2)}"}`,
    () => `{"prompt":{${Array.from({ length: 5_500 }, (_, i) => `"${i}":{"class_type":"EmptyImage","inputs":{}}`)}}}`,
    () =>
      `{"prompt":{${Array.from({ length: 3_000 }, (_, i) => `"${i}":{"class_type":"SaveImage","inputs":{"images":["${(i + 1) % 3_000}",0]}}`)}}}`,
    () => `{"prompt":{"1":{"class_type":"${"é".repeat(n)}","inputs":{}}}}`,
    () => `{"prompt":${GOOD_PROMPT},"metadata":{"x":"${"\\u00e9".repeat(n)}"}}`,
    () => `{"prompt":{"1":{"class_type":"EmptyImage","inputs":{"seed":${"9".repeat(n)}}}}}`,
    () => `{"prompt":{"1":{"class_type":"EmptyImage","inputs":{"text":"${"x".repeat(n * 10)}"}}}}`,
    () => `${" ".repeat(n * 30)}{"prompt":${GOOD_PROMPT}}`,
  ])();
}

export function jsonBody(random: Random): Buffer {
  const roll = random.next();
  if (roll < 0.01) return Buffer.from(large(random));
  if (roll < 0.05) return random.bytes(random.int(0, 200));
  if (roll < 0.1) return Buffer.from(value(random, 4));
  const text = submission(random);
  if (roll < 0.2) return mutate(random, Buffer.from(text));
  if (roll < 0.24) return Buffer.from(text, "utf16le");
  if (roll < 0.26) return Buffer.from(`\ufeff${text}`);
  if (roll < 0.28) return Buffer.concat([Buffer.from(text), random.bytes(3)]);
  return Buffer.from(text);
}

/** Some bytes cut, doubled or changed. */
function mutate(random: Random, bytes: Buffer): Buffer {
  const at = random.int(0, bytes.length);
  const cut = random.int(0, 8);
  const [head, tail] = [bytes.subarray(0, at), bytes.subarray(Math.min(at + cut, bytes.length))];
  return random.pick([
    () => head,
    () => Buffer.concat([head, tail]),
    () => Buffer.concat([head, random.bytes(cut), tail]),
    () => Buffer.concat([head, head, tail]),
  ])();
}
