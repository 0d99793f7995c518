import { randomUUID } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { exportJWK, generateKeyPair, importJWK } from "jose";
import * as v from "valibot";
import { Enrolled, PublicJwk } from "../schemas/runner-protocol.ts";
import type { Signer } from "../schemas/signed-request.ts";
import { StartError } from "./start-error.ts";

/** What a runner was enrolled as, and for which pair of addresses; for any other pair it enrols anew. */
const Enrolment = v.object({ ...Enrolled.entries, edge: v.string(), url: v.string() });
export type StoredEnrolment = v.InferOutput<typeof Enrolment>;

const IdentityFile = v.object({
  private_jwk: v.object({ ...PublicJwk.entries, d: v.pipe(v.string(), v.maxLength(64)) }),
  public_jwk: PublicJwk,
  enrolment: v.optional(Enrolment),
});
type IdentityFile = v.InferOutput<typeof IdentityFile>;

/** Who this runner is: its key, which never leaves the machine, and its enrolment. */
export interface Identity {
  /** Signs as this runner, with the public key embedded. */
  readonly signer: Signer;
  readonly publicJwk: PublicJwk;
  /** The enrolment for this edge and runner URL, undefined where there is none. */
  enrolment(edge: string, url: string): StoredEnrolment | undefined;
  /** Stores an enrolment, or a fresh credential in one. It holds from the call on, even if writing it rejects. */
  enrolled(enrolment: StoredEnrolment): Promise<void>;
}

/** A reader sees the old file or the new one, never half of one. */
async function writeWhole(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

async function makeKey(): Promise<IdentityFile> {
  const { privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true });
  const private_jwk = v.parse(IdentityFile.entries.private_jwk, await exportJWK(privateKey));
  return { private_jwk, public_jwk: v.parse(PublicJwk, private_jwk) };
}

async function readIdentity(path: string): Promise<IdentityFile | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw new StartError(`the identity file ${path} can't be read`, { cause: error });
  }
  try {
    return v.parse(IdentityFile, JSON.parse(text));
  } catch {
    // The causes would quote the file, which holds a private key.
    throw new StartError(
      `the identity file ${path} is damaged; restore it, or move it away and enrol again with --token`,
    );
  }
}

/**
 * Opens `<folder>/identity.json`; at the first start makes it (mode 0600, the folder 0700) with a fresh Ed25519 key. A file that
 * can't be understood is a StartError and stays as it is: only its owner may give up an identity.
 */
export async function openIdentity(folder: string): Promise<Identity> {
  const path = join(folder, "identity.json");
  let file = await readIdentity(path);
  if (!file) {
    file = await makeKey();
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await writeWhole(path, serialise(file));
    } catch (error) {
      throw new StartError(`the identity file ${path} can't be written`, { cause: error });
    }
  }
  const { public_jwk: publicJwk } = file;
  const privateKey = await importJWK(file.private_jwk, "EdDSA").catch(() => undefined);
  if (!privateKey || privateKey instanceof Uint8Array || file.private_jwk.x !== publicJwk.x)
    throw new StartError(`the identity file ${path} holds no usable key; restore it, or move it away and enrol again`);

  let current = file;
  let writing: Promise<void> = Promise.resolve();
  return {
    signer: { privateKey, header: { jwk: publicJwk } },
    publicJwk,
    enrolment(edge, url) {
      const { enrolment } = current;
      return enrolment?.edge === edge && enrolment.url === url ? enrolment : undefined;
    },
    enrolled(enrolment) {
      current = { ...current, enrolment };
      const text = serialise(current);
      writing = writing.catch(() => {}).then(() => writeWhole(path, text));
      return writing;
    },
  };
}

const serialise = (file: IdentityFile): string => `${JSON.stringify(file, undefined, 2)}\n`;
