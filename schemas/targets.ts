import ipaddr from "ipaddr.js";

/**
 * Which URLs the service and its runners may call on a stranger's word (spec section 4.1, contract section 5). Pure text rules:
 * what a public name resolves to is the guard of whoever opens the connection.
 */

export interface TargetRules {
  /** Hosts of the service itself, lower case: never called on request. */
  readonly ownHosts: readonly string[];
  /** Allows plain `http:` and any port, on loopback hosts only. The local start sets it; nothing deployed can. */
  readonly loopback: boolean;
}

export type TargetCheck =
  | { readonly ok: true; readonly url: URL }
  /** `rule` is a sentence for the caller that names the broken rule. */
  | { readonly ok: false; readonly rule: string };

type Address = ipaddr.IPv4 | ipaddr.IPv6;

const FORBIDDEN_SUFFIXES = ["local", "internal", "localhost", "localdomain", "home.arpa"];
const MAX_NAME_CHARACTERS = 253;
/** What the domain name system takes; underscores are no letters of host names, yet names with them are served. */
const LABEL = /^[a-z0-9_-]{1,63}$/;
/** An `@` with nothing before it; the URL parser drops it. */
const EMPTY_USER_INFO = /^[a-z]+:\/*:?@/i;

/** Each address in it stands for the IPv4 address in its last 32 bits. */
const NAT64 = ipaddr.parseCIDR("64:ff9b::/96");

/**
 * The "Globally Reachable" column of IANA's special-purpose address registries (2025-10), with multicast and 192.88.99.0/24
 * as unreachable. The narrowest range that holds an address decides; what no range holds (all IPv6 outside 2000::/3) is not
 * called.
 */
const REACHABLE = [
  "0.0.0.0/0",
  "192.0.0.9/32",
  "192.0.0.10/32",
  "2000::/3",
  "2001:1::1/128",
  "2001:1::2/128",
  "2001:1::3/128",
  "2001:3::/32",
  "2001:4:112::/48",
  "2001:20::/28",
  "2001:30::/28",
];
const UNREACHABLE = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "2001::/23",
  "2001:db8::/32",
  "2002::/16",
  "3fff::/20",
];

const RANGES = [REACHABLE, UNREACHABLE]
  .flatMap((ranges) => ranges.map((cidr) => ({ range: ipaddr.parseCIDR(cidr), reachable: ranges === REACHABLE })))
  .sort((a, b) => b.range[1] - a.range[1]);

/** ipaddr.js throws where the kinds differ. */
const holds = (range: [Address, number], address: Address): boolean =>
  range[0].kind() === address.kind() && address.match(range);

/** Where a connection to an address ends. */
const endOf = (address: Address): Address =>
  holds(NAT64, address) ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address;

/** The address that a URL's host spells out, or undefined for a name. The URL parser has unified every spelling of IPv4. */
function addressOf(host: string): Address | undefined {
  const bare = host.startsWith("[") ? host.slice(1, -1) : host;
  return ipaddr.isValid(bare) ? ipaddr.parse(bare) : undefined;
}

/** Whether a URL's host (as `URL.hostname` gives it) is this machine itself. */
export function isLoopbackHost(hostname: string): boolean {
  return hostname === "localhost" || addressOf(hostname)?.range() === "loopback";
}

const withoutDot = (host: string): string => host.replace(/\.$/, "");

function brokenAddressRule(address: Address): string | undefined {
  const narrowest = RANGES.find(({ range }) => holds(range, address));
  return narrowest?.reachable ? undefined : "its address is not publicly reachable";
}

/**
 * Whether an IP address is one that a target may resolve to: the guard of whoever opens a connection asks it of the address that
 * the connection really has. False for any text that is no address.
 */
export function isPublicAddress(text: string): boolean {
  const address = addressOf(text);
  return address !== undefined && brokenAddressRule(endOf(address)) === undefined;
}

function brokenNameRule(name: string): string | undefined {
  if (name.length > MAX_NAME_CHARACTERS || !name.split(".").every((label) => LABEL.test(label)))
    return "its host name must have at most 253 characters, in parts of 1 to 63 letters, digits, hyphens or underscores";
  if (FORBIDDEN_SUFFIXES.some((suffix) => name === suffix || name.endsWith(`.${suffix}`)))
    return "its host name is not publicly reachable";
  return name.includes(".") ? undefined : "its host must be a public name with a dot, or a public address";
}

/**
 * Judges the text of a URL. Refuses: anything but `https:`, user info, ports below 1024 other than 443, names that are not
 * public or that no host can have, addresses that are not globally reachable, the service's own hosts, and any text with a
 * backslash, white space or a control character.
 */
export function checkTarget(text: string, rules: TargetRules): TargetCheck {
  const refuse = (rule: string): TargetCheck => ({ ok: false, rule });
  if (/[\\\s\p{Cc}]/u.test(text)) return refuse("it must not contain white space, control characters or backslashes");
  if (text.length > 2048) return refuse("it must have at most 2048 characters");
  if (!URL.canParse(text)) return refuse("it must be a valid absolute URL");
  const url = new URL(text);
  if (url.username !== "" || url.password !== "" || EMPTY_USER_INFO.test(text))
    return refuse("it must not contain user information");
  if (rules.loopback && (url.protocol === "http:" || url.protocol === "https:") && isLoopbackHost(url.hostname))
    return { ok: true, url };
  if (url.protocol !== "https:") return refuse("it must use https");
  if (url.port !== "" && Number(url.port) < 1024) return refuse("its port must be 443 or above 1023");

  const address = addressOf(url.hostname);
  const end = address && endOf(address);
  const name = withoutDot(url.hostname);
  const broken = end ? brokenAddressRule(end) : brokenNameRule(name);
  if (broken !== undefined) return refuse(broken);
  const spellings = [name, end?.toString()];
  if (rules.ownHosts.some((own) => spellings.includes(withoutDot(own))))
    return refuse("it must not point to this service");
  return { ok: true, url };
}
