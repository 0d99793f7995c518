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

const FORBIDDEN_SUFFIXES = ["local", "internal", "localhost", "localdomain", "home.arpa"];

const IPV4_SPECIAL_EXTRA = ipaddr.parseCIDR("192.88.99.0/24");
const NAT64 = ipaddr.parseCIDR("64:ff9b::/96");
const GLOBAL_UNICAST = ipaddr.parseCIDR("2000::/3");

/** Ranges of the IANA special-purpose registries that ipaddr.js has no name for. */
const IPV6_SPECIAL_EXTRA = [
  "2001::/23",
  "2001:db8::/32",
  "2002::/16",
  "3fff::/20",
  "5f00::/16",
  "2620:4f:8000::/48",
].map((cidr) => ipaddr.parseCIDR(cidr));

function isPublicIPv4(address: ipaddr.IPv4): boolean {
  return address.range() === "unicast" && !address.match(IPV4_SPECIAL_EXTRA as [ipaddr.IPv4, number]);
}

function isPublicIPv6(address: ipaddr.IPv6): boolean {
  if (address.match(NAT64 as [ipaddr.IPv6, number])) {
    return isPublicIPv4(new ipaddr.IPv4(address.toByteArray().slice(12)));
  }
  if (!address.match(GLOBAL_UNICAST as [ipaddr.IPv6, number]) || address.range() !== "unicast") return false;
  return !IPV6_SPECIAL_EXTRA.some((range) => address.match(range as [ipaddr.IPv6, number]));
}

/** The address that a URL's host spells out, or undefined for a name. The URL parser has unified every spelling of IPv4. */
function addressOf(host: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  const bare = host.startsWith("[") ? host.slice(1, -1) : host;
  return ipaddr.isValid(bare) ? ipaddr.parse(bare) : undefined;
}

/** Whether a URL's host (as `URL.hostname` gives it) is this machine itself. */
export function isLoopbackHost(hostname: string): boolean {
  return hostname === "localhost" || addressOf(hostname)?.range() === "loopback";
}

/**
 * Judges the text of a URL. Refuses: anything but `https:`, user info, ports below 1024 other than 443, names that are not
 * public, addresses that are not globally reachable, the service's own hosts, and any text with a backslash, white space or
 * a control character.
 */
export function checkTarget(text: string, rules: TargetRules): TargetCheck {
  const refuse = (rule: string): TargetCheck => ({ ok: false, rule });
  if (/[\\\s\p{Cc}]/u.test(text)) return refuse("it must not contain white space, control characters or backslashes");
  if (text.length > 2048) return refuse("it must have at most 2048 characters");
  if (!URL.canParse(text)) return refuse("it must be an absolute URL");
  const url = new URL(text);
  const host = url.hostname;
  if (url.username !== "" || url.password !== "") return refuse("it must not contain user information");
  if (rules.loopback && (url.protocol === "http:" || url.protocol === "https:") && isLoopbackHost(host))
    return { ok: true, url };
  if (url.protocol !== "https:") return refuse("it must use https");
  if (url.port !== "" && Number(url.port) < 1024) return refuse("its port must be 443 or above 1023");

  const name = host.replace(/\.$/, "");
  const fine: TargetCheck = rules.ownHosts.includes(name)
    ? refuse("it must not point to this service")
    : { ok: true, url };
  const address = addressOf(host);
  if (address) {
    const isPublic =
      address.kind() === "ipv4" ? isPublicIPv4(address as ipaddr.IPv4) : isPublicIPv6(address as ipaddr.IPv6);
    return isPublic ? fine : refuse("its address is not publicly reachable");
  }
  if (name === "" || name.startsWith(".") || name.endsWith(".") || name.includes(".."))
    return refuse("its host name is malformed");
  if (FORBIDDEN_SUFFIXES.some((suffix) => name === suffix || name.endsWith(`.${suffix}`)))
    return refuse("its host name is not publicly reachable");
  if (!name.includes(".")) return refuse("its host must be a public name with a dot, or a public address");
  return fine;
}
