import type { LookupAddress } from "node:dns";
import { once } from "node:events";
import { connect, isIP, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { isLoopbackHost, isPublicAddress } from "../../schemas/targets.ts";
import { unlessAborted } from "../pause.ts";
import { Refused } from "./refused.ts";

/** All addresses of a name; rejects where it has none. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

export interface Dialling {
  readonly resolve: Resolve;
  /** Loopback hosts may be called, and lead to loopback addresses alone. */
  readonly loopback: boolean;
  /** Certificates to trust in place of the well-known ones, PEM. */
  readonly ca?: string;
}

/** For each address of several but the last; the default of 250 ms gives up on hosts across an ocean. */
const NEXT_ADDRESS_MS = 2_000;

const UNREACHABLE = "could not be reached";

async function addressesOf(host: string, resolve: Resolve, signal: AbortSignal): Promise<readonly LookupAddress[]> {
  const family = isIP(host);
  if (family !== 0) return [{ address: host, family }];
  try {
    const found = await unlessAborted(resolve(host), signal);
    if (found?.length) return found;
  } catch (error) {
    throw new Refused(`${UNREACHABLE}: its host name has no address`, { cause: error });
  }
  throw new Refused(`${UNREACHABLE}: its host name has no address`);
}

/** Waits for the event. Where it does not come, the socket is destroyed. */
async function opened<S extends Socket>(socket: S, event: string, signal: AbortSignal, otherwise: string): Promise<S> {
  // Errors after this wait reach the reader of the response, too.
  socket.on("error", () => {});
  try {
    await once(socket, event, { signal });
    return socket;
  } catch (error) {
    socket.destroy();
    throw new Refused(otherwise, { cause: error });
  }
}

function secured(socket: Socket, host: string, { ca }: Dialling, signal: AbortSignal): Promise<Socket> {
  const tls = connectTls({
    socket,
    host,
    servername: isIP(host) === 0 ? host : "",
    ALPNProtocols: ["http/1.1"],
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
  });
  return opened(tls, "secureConnect", signal, `${UNREACHABLE}: it offers no TLS with a valid certificate`);
}

/**
 * Opens a connection to a URL's host (that `checkTarget` has allowed), over TLS where it is `https:`. The name is resolved once;
 * every address that it has must be a public one, and the socket gets these addresses to choose from and no name. The one that it
 * has reached is judged again before a byte is sent. No proxy is used, whatever the environment says. Throws Refused.
 */
export async function openConnection(url: URL, dialling: Dialling, signal: AbortSignal): Promise<Socket> {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const allowed = dialling.loopback && isLoopbackHost(url.hostname) ? isLoopbackHost : isPublicAddress;
  const addresses = await addressesOf(host, dialling.resolve, signal);
  const judge = (address: string | undefined): void => {
    if (address === undefined || !allowed(address))
      throw new Refused("is refused: its address is not publicly reachable");
  };
  for (const { address } of addresses) judge(address);

  const lookup: LookupFunction = (_name, { all }, answer) => {
    const [first] = addresses;
    if (all || !first) answer(null, [...addresses]);
    else answer(null, first.address, first.family);
  };
  const secure = url.protocol === "https:";
  const port = url.port === "" ? (secure ? 443 : 80) : Number(url.port);
  const choice = { lookup, autoSelectFamily: true, autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_MS };
  const socket = await opened(connect({ host, port, ...choice }), "connect", signal, UNREACHABLE);
  try {
    judge(socket.remoteAddress);
    return secure ? await secured(socket, host.replace(/\.$/, ""), dialling, signal) : socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}
