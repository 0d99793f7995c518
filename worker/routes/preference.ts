/** How long a request may wait, seconds (contract section 2). */
const MOST_S = 60;

const seconds = (text: string): number | undefined => {
  const value = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  return value >= 1 && value <= MOST_S ? value : undefined;
};

/** The wait of a `Prefer` header (RFC 7240). An invalid one is ignored. */
export function preferredWait(header: string | undefined): number | undefined {
  for (const preference of (header ?? "").split(/[,;]/)) {
    const [name, value = ""] = preference.trim().split("=");
    if (name?.trim().toLowerCase() === "wait") return seconds(value.trim().replace(/^"(.*)"$/, "$1"));
  }
  return undefined;
}

/** The wait of a `?wait=` parameter: 0 where there is none, undefined where it is malformed. */
export const queriedWait = (value: string | undefined): number | undefined =>
  value === undefined ? 0 : seconds(value);
