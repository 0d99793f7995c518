import net, { type NetConnectOpts, type Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { aCertificate, aServer, type Certificate, fileOf, messageOf, sending, someInputs } from "./inputs-harness.ts";

/**
 * Hosts with public names and addresses, which a test can't have: what would connect to a public address reaches this machine, and
 * the socket says of itself what `lie` says.
 */
let lie: string | undefined;

vi.mock("node:net", async (original) => {
  const real = await original<typeof net>();
  const connect = (options: NetConnectOpts): Socket => {
    if (lie === undefined || !("port" in options)) return real.connect(options);
    const socket = real.connect({ host: "127.0.0.1", port: options.port });
    return lie === "" ? socket : Object.defineProperty(socket, "remoteAddress", { value: lie });
  };
  return { ...real, connect };
});
afterEach(() => {
  lie = undefined;
});

const PUBLIC = "93.184.216.34";
const resolve = async () => [{ address: PUBLIC, family: 4 }];
const NO_TLS = "could not be reached: it offers no TLS with a valid certificate.";

let certificate: Certificate;
beforeAll(async () => {
  certificate = await aCertificate("DNS:files.example.com", "DNS:localhost", "IP:127.0.0.1");
});

describe("a public host", () => {
  test("is called by its name", async () => {
    lie = PUBLIC;
    const names: unknown[] = [];
    const server = await aServer((request, response) => {
      names.push((request.socket as TLSSocket & { servername?: string }).servername, request.headers.host);
      response.end("bytes");
    }, certificate);
    const inputs = await someInputs({ loopback: false, resolve, ca: certificate.cert });
    expect(fileOf(await inputs.one(`https://files.example.com:${server.port}/a`)).size_bytes).toBe(5);
    expect(fileOf(await inputs.one(`https://files.example.com.:${server.port}/a`)).size_bytes).toBe(5);
    expect(names).toEqual([
      "files.example.com",
      `files.example.com:${server.port}`,
      "files.example.com",
      `files.example.com.:${server.port}`,
    ]);
  });

  test("does not lead to this machine, even where loopback is allowed", async () => {
    lie = PUBLIC;
    const secret = await aServer(sending("secret"), certificate);
    const server = await aServer((_request, response) => {
      response.writeHead(302, { location: secret.url() }).end();
    }, certificate);
    const inputs = await someInputs({ resolve, ca: certificate.cert });
    expect(messageOf(await inputs.one(`https://files.example.com:${server.port}/a`))).toBe(
      "The input at files.example.com redirects to a URL that is refused: its address is not publicly reachable.",
    );
    expect(secret.connections.opened).toBe(0);
  });

  test.each(["", "10.0.0.1", "::ffff:93.184.216.34"])("that turns out to be at %j gets no byte", async (address) => {
    lie = address;
    let bytes = 0;
    const server = net.createServer((socket) => {
      socket.on("data", ({ length }) => {
        bytes += length;
      });
    });
    const closed = new Promise((close) => server.once("connection", (socket) => socket.once("close", close)));
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    try {
      const port = (server.address() as net.AddressInfo).port;
      const inputs = await someInputs({ loopback: false, resolve, ca: certificate.cert });
      expect(messageOf(await inputs.one(`https://files.example.com:${port}/a`))).toBe(
        "The input at files.example.com is refused: its address is not publicly reachable.",
      );
      await closed;
      expect(bytes).toBe(0);
    } finally {
      server.close();
    }
  });
});

describe("TLS", () => {
  test("is verified", async () => {
    const other = await aCertificate("DNS:other.example.com");
    const known = await aServer(sending("bytes"), certificate);
    const misnamed = await aServer(sending("bytes"), other);
    const plain = await aServer(sending("bytes"));
    const trusting = await someInputs({ ca: certificate.cert + other.cert });
    expect(fileOf(await trusting.one(known.url())).size_bytes).toBe(5);
    expect(fileOf(await trusting.one(`https://localhost:${known.port}/`)).size_bytes).toBe(5);
    expect(messageOf(await trusting.one(misnamed.url()))).toBe(`The input at 127.0.0.1 ${NO_TLS}`);
    expect(messageOf(await trusting.one(`https://127.0.0.1:${plain.port}/`))).toBe(`The input at 127.0.0.1 ${NO_TLS}`);
    const usual = await someInputs();
    expect(messageOf(await usual.one(known.url()))).toBe(`The input at 127.0.0.1 ${NO_TLS}`);
    expect([known, misnamed, plain].map(({ requests }) => requests.length)).toEqual([2, 0, 0]);
    for (const { connections } of [known, misnamed, plain]) await vi.waitFor(() => expect(connections.open).toBe(0));
  });

  test("is verified whatever the environment says", async () => {
    const server = await aServer(sending("bytes"), certificate);
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    try {
      expect(messageOf(await (await someInputs()).one(server.url()))).toBe(`The input at 127.0.0.1 ${NO_TLS}`);
    } finally {
      vi.unstubAllEnvs();
    }
    expect(server.requests).toEqual([]);
  });

  test("is not left for plain http on a redirect, not even on loopback", async () => {
    const plain = await aServer(sending("bytes"));
    const server = await aServer(
      (_request, response) => response.writeHead(302, { location: plain.url() }).end(),
      certificate,
    );
    const inputs = await someInputs({ ca: certificate.cert });
    expect(messageOf(await inputs.one(server.url()))).toBe(
      "The input at 127.0.0.1 redirects to a URL that is refused: it must use https.",
    );
    expect(plain.connections.opened).toBe(0);
  });
});
