import { createServer } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { listenersOn, sharesUser } from "../../../gpu-runner/engines/comfyui/shared-user.ts";

const HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const row = (local: string, state: string, user: number): string =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  ${user}        0 4242 1 0000 100 0 0 10 0`;
/** Port 8188 in the kernel's spelling. */
const PORT = "1FFC";

describe("The users that listen on a port", () => {
  it("are read from the tables of both address families", () => {
    const four = [HEAD, row(`0100007F:${PORT}`, "0A", 1000), row("0100007F:0050", "0A", 33), ""].join("\n");
    const six = [HEAD, row(`00000000000000000000000001000000:${PORT}`, "0A", 1001)].join("\n");
    expect([...listenersOn(8188, [four, six])]).toEqual([1000, 1001]);
  });

  it("are not those of connections, nor of an unreadable table", () => {
    const table = [HEAD, row(`0100007F:${PORT}`, "01", 1000), row(`0100007F:${PORT}`, "06", 0), "odd"].join("\n");
    expect([...listenersOn(8188, [table, ""])]).toEqual([]);
  });
});

const platformIsLinux = process.platform === "linux";

describe.runIf(platformIsLinux)("On this machine", () => {
  const server = createServer();
  afterEach(() => void server.close());

  it("a listener of this user is known as one, by any loopback name", async () => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    const port = typeof address === "object" && address ? address.port : 0;
    expect(await sharesUser(`http://127.0.0.1:${port}`)).toBe(true);
    expect(await sharesUser(`http://localhost:${port}`)).toBe(true);
    expect(await sharesUser(`http://[::1]:${port}`)).toBe(true);
    expect(await sharesUser(`http://192.0.2.1:${port}`)).toBe(false);
    await new Promise((resolve) => server.close(resolve));
    expect(await sharesUser(`http://127.0.0.1:${port}`)).toBe(false);
  });
});
