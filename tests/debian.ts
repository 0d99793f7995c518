import { execFile } from "node:child_process";
import { access, constants, readFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

/** What tests need from the machine beyond npm: found, or installed where that is allowed. */

const run = promisify(execFile);

/** Seconds to wait for another process that installs packages. */
const LOCK_TIMEOUT_S = 300;

/** The path of a command, or undefined if PATH does not have it. */
export async function findCommand(name: string): Promise<string | undefined> {
  for (const folder of (process.env.PATH ?? "").split(delimiter).filter((entry) => entry !== "")) {
    const path = join(folder, name);
    const executable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (executable) return path;
  }
  return undefined;
}

async function isDebian(): Promise<boolean> {
  const release = await readFile("/etc/os-release", "utf8").catch(() => "");
  return /^ID(_LIKE)?="?([\w ]* )?debian\b/m.test(release) && (await findCommand("apt-get")) !== undefined;
}

const aptGet = (...args: readonly string[]): Promise<unknown> =>
  run("apt-get", ["-o", `DPkg::Lock::Timeout=${LOCK_TIMEOUT_S}`, ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    maxBuffer: 64 * 1024 * 1024,
  });

let updated: Promise<unknown> | undefined;

/**
 * Installs Debian packages, as root on Debian. Needs the network.
 * @param why what lacks them; begins the message of the error that is thrown where they can't be installed
 */
export async function installPackages(packages: readonly string[], why: string): Promise<void> {
  const advice = `${why} Install it: apt-get install ${packages.join(" ")} (or what your system calls it).`;
  if (process.getuid?.() !== 0 || !(await isDebian())) throw new Error(advice);
  try {
    updated ??= aptGet("update");
    await updated;
    await aptGet("install", "-y", "--no-install-recommends", ...packages);
  } catch (error) {
    throw new Error(advice, { cause: error });
  }
}

/** The path of a command, installed from a Debian package where it is missing. */
export async function commandOf(name: string, debianPackage: string): Promise<string> {
  const found = await findCommand(name);
  if (found !== undefined) return found;
  await installPackages([debianPackage], `The command ${name} is missing.`);
  const installed = await findCommand(name);
  if (installed === undefined) throw new Error(`The package ${debianPackage} has no command ${name}.`);
  return installed;
}
