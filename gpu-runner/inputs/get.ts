import { type IncomingMessage, request as httpRequest } from "node:http";
import { type Dialling, openConnection } from "./connect.ts";
import { Refused } from "./refused.ts";

const USER_AGENT = "darkroom-runner/1";

/** Sent to every host; beside it only what a cached copy is asked for again by. No cookie, no credential. */
const HEADERS = { "user-agent": USER_AGENT, accept: "*/*", "accept-encoding": "identity" };

/**
 * Asks for a URL (that `checkTarget` has allowed) over a connection of its own, and follows no redirect. The caller reads or
 * destroys the response; until then it lasts no longer than the signal. Throws Refused.
 */
export async function get(
  url: URL,
  { headers, dialling, signal }: { headers: Readonly<Record<string, string>>; dialling: Dialling; signal: AbortSignal },
): Promise<IncomingMessage> {
  const socket = await openConnection(url, dialling, signal);
  // `node:http` writes to the socket that it is given; that of an `https:` URL is already secure.
  const request = httpRequest({
    createConnection: () => socket,
    path: url.pathname + url.search,
    setHost: false,
    headers: { host: url.host, ...HEADERS, ...headers },
    insecureHTTPParser: false,
    signal,
  });
  try {
    return await new Promise((resolve, reject) => {
      request.on("response", resolve).on("error", reject);
      request.on("close", () => reject(new Error("closed without a response")));
      request.end();
    });
  } catch (error) {
    socket.destroy();
    throw new Refused("gave no valid HTTP response", { cause: error });
  }
}
