import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { callOperator } from "./local/operator.ts";
import { newSecrets, readLocal } from "./local/state.ts";
import { sha256 } from "../schemas/signed-request.ts";

const USAGE = `Usage: npm run --silent admin -- COMMAND

  accounts create --email A@B.C --tier free|pro|enterprise [--pool POOL]
  accounts set-tier --account ID --tier free|pro|enterprise
  accounts suspend --account ID
  accounts resume --account ID
  accounts new-webhook-secret --account ID
  keys create --account ID --name NAME
  keys revoke --account ID --key FIRST_12
  invitations create --account ID [--note TEXT]                       a link to claim that account
  invitations create --tier free|pro|enterprise [--note TEXT]         a link to a new one
  runners token [--pool POOL] [--seats N]
  runners list [--pool POOL]
  runners drain --runner ID [--pool POOL]
  runners revoke --runner ID [--pool POOL]
  fleet status [--pool POOL]
  secrets new                       a fresh set for a deployment; calls nobody

Prints one JSON object. Finds the local service through .darkroom/local.json; a deployed one is named by
--url (DARKROOM_URL) and --token (DARKROOM_OPERATOR_TOKEN).`;

class UsageError extends Error {
  override readonly name = "UsageError";
}

const OPTIONS = {
  email: { type: "string" },
  tier: { type: "string" },
  account: { type: "string" },
  name: { type: "string" },
  key: { type: "string" },
  note: { type: "string" },
  pool: { type: "string" },
  seats: { type: "string" },
  runner: { type: "string" },
  url: { type: "string" },
  token: { type: "string" },
  folder: { type: "string", default: ".darkroom" },
  help: { type: "boolean", default: false },
} as const;

type Name = Exclude<keyof typeof OPTIONS, "help" | "folder">;

interface Call {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: Record<string, unknown>;
}

function readArguments() {
  try {
    return parseArgs({ options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

const invitation = ({ account, tier, note }: Partial<Record<Name, string>>) => ({
  ...(account === undefined ? {} : { account_id: account }),
  ...(tier === undefined ? {} : { tier }),
  ...(note === undefined ? {} : { note }),
});

function callOf(command: string, given: Partial<Record<Name, string>>): Call {
  const need = (name: Name): string => {
    const value = given[name];
    if (value === undefined || value === "") throw new UsageError(`${command} needs --${name}`);
    return value;
  };
  const account = (): string => `/accounts/${encodeURIComponent(need("account"))}`;
  const pool = given.pool === undefined ? {} : { pool: given.pool };
  const query = given.pool === undefined ? "" : `?pool=${encodeURIComponent(given.pool)}`;
  switch (command) {
    case "accounts create":
      return { method: "POST", path: "/accounts", body: { email: need("email"), tier: need("tier"), ...pool } };
    case "accounts set-tier":
      return { method: "POST", path: `${account()}/tier`, body: { tier: need("tier") } };
    case "accounts suspend":
      return { method: "POST", path: `${account()}/suspend`, body: {} };
    case "accounts resume":
      return { method: "POST", path: `${account()}/resume`, body: {} };
    case "accounts new-webhook-secret":
      return { method: "POST", path: `${account()}/webhook-secret`, body: {} };
    case "keys create":
      return { method: "POST", path: `${account()}/keys`, body: { name: need("name") } };
    case "keys revoke":
      return { method: "POST", path: `${account()}/keys/revoke`, body: { key: need("key") } };
    case "invitations create":
      if ((given.account === undefined) === (given.tier === undefined))
        throw new UsageError(`${command} needs --account or --tier, one of them`);
      return { method: "POST", path: "/invitations", body: invitation(given) };
    case "runners token":
      return {
        method: "POST",
        path: "/runner-tokens",
        body: { ...pool, ...(given.seats === undefined ? {} : { max_seats: Number(given.seats) }) },
      };
    case "runners list":
      return { method: "GET", path: `/runners${query}` };
    case "runners drain":
      return { method: "POST", path: `/runners/${encodeURIComponent(need("runner"))}/drain${query}`, body: {} };
    case "runners revoke":
      return { method: "POST", path: `/runners/${encodeURIComponent(need("runner"))}/revoke${query}`, body: {} };
    case "fleet status":
      return { method: "GET", path: `/fleet${query}` };
    default:
      throw new UsageError(command === "" ? "which command?" : `no such command: ${command}`);
  }
}

async function access(given: Partial<Record<Name, string>>, folder: string): Promise<{ url: string; token: string }> {
  const url = given.url ?? process.env.DARKROOM_URL;
  const token = given.token ?? process.env.DARKROOM_OPERATOR_TOKEN;
  if (url && token) return { url: url.replace(/\/$/, ""), token };
  if (url) throw new UsageError("--url needs --token (or DARKROOM_OPERATOR_TOKEN) beside it");
  const local = await readLocal(resolve(folder));
  if (!local)
    throw new UsageError(`no local service is known in ${folder}/; start it, or name a service by --url and --token`);
  return { url: local.base_url, token: local.operator_token };
}

async function secrets(): Promise<Record<string, string>> {
  const { operator_token, ...rest } = await newSecrets();
  return { ...rest, OPERATOR_TOKEN_HASHES: await sha256(operator_token), operator_token };
}

try {
  const { values, positionals } = readArguments();
  const { help, folder, ...given } = values;
  if (help) console.log(USAGE);
  else if (positionals.join(" ") === "secrets new") console.log(JSON.stringify(await secrets(), null, 2));
  else {
    const { method, path, body } = callOf(positionals.join(" "), given);
    const { url, token } = await access(given, folder);
    console.log(JSON.stringify(await callOperator(url, token, method, path, body), null, 2));
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  if (error instanceof UsageError) console.error(`\n${USAGE}`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
