import { randomBytes } from "node:crypto";
import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { base64url, exportJWK, generateKeyPair } from "jose";

/** What the local start keeps below its folder: secrets, the development account, and where the service is. */

/** Where a client, a test or the operator's script finds the local service. Written with mode 0600. */
export interface LocalFile {
  readonly base_url: string;
  readonly portal_url: string;
  readonly api_key: string;
  readonly account_id: string;
  readonly webhook_secret: string;
  readonly runner_url: string;
  readonly operator_token: string;
}

export interface Secrets {
  readonly EDGE_SIGNING_KEY: string;
  readonly OUTPUT_URL_KEY: string;
  readonly SESSION_KEY: string;
  readonly operator_token: string;
}

export interface DevelopmentAccount {
  readonly account_id: string;
  readonly api_key: string;
  readonly webhook_secret: string;
}

async function readJson<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new Error(`${path} can't be read; mend or remove it.`, { cause: error });
  }
}

/** Whole or not at all, and for this user only. */
export async function writePrivate(path: string, value: unknown): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  await writeFile(temporary, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  await rename(temporary, path);
}

export async function makeFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await chmod(folder, 0o700);
}

/** A fresh set of everything that a deployment keeps secret. */
export async function newSecrets(): Promise<Secrets> {
  const { privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true });
  const jwk = await exportJWK(privateKey);
  return {
    EDGE_SIGNING_KEY: JSON.stringify({ ...jwk, kid: base64url.encode(randomBytes(9)) }),
    OUTPUT_URL_KEY: base64url.encode(randomBytes(32)),
    SESSION_KEY: base64url.encode(randomBytes(32)),
    operator_token: `op_${base64url.encode(randomBytes(32))}`,
  };
}

export async function secretsIn(folder: string): Promise<Secrets> {
  const path = join(folder, "secrets.json");
  const known = await readJson<Partial<Secrets>>(path);
  const secrets = { ...(await newSecrets()), ...known };
  if (Object.keys(secrets).length > Object.keys(known ?? {}).length) await writePrivate(path, secrets);
  return secrets;
}

const accountPath = (folder: string): string => join(folder, "account.json");
export const readAccount = (folder: string): Promise<DevelopmentAccount | undefined> => readJson(accountPath(folder));
export const writeAccount = (folder: string, account: DevelopmentAccount): Promise<void> =>
  writePrivate(accountPath(folder), account);

const localPath = (folder: string): string => join(folder, "local.json");
export const readLocal = (folder: string): Promise<LocalFile | undefined> => readJson(localPath(folder));
export const writeLocal = (folder: string, local: LocalFile): Promise<void> => writePrivate(localPath(folder), local);
