import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { type Browser, chromium } from "playwright-core";
import { installPackages } from "../debian.ts";

/** The Chromium of @sparticuz/chromium (Linux, x64); elsewhere the one that CHROMIUM_PATH names. */

const run = promisify(execFile);

const MODULES = join(import.meta.dirname, "..", "..", "node_modules");

/** Debian packages by the shared library that Chromium is linked against. */
const PACKAGES: Readonly<Record<string, string>> = {
  "libnspr4.so": "libnspr4",
  "libplc4.so": "libnspr4",
  "libplds4.so": "libnspr4",
  "libnss3.so": "libnss3",
  "libnssutil3.so": "libnss3",
  "libexpat.so.1": "libexpat1",
  "libgcc_s.so.1": "libgcc-s1",
};

/** The package ships Open Sans alone: it has neither monospace letters nor arrows and check marks. */
const FONT = { file: "DejaVuSansMono.ttf", debianPackage: "fonts-dejavu-core" };

/** Open Sans, and DejaVu for monospace and symbols: the same text on every machine, whatever fonts it has. */
const fontsConf = (folder: string): string => `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${folder}/fonts/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>${folder}/fonts-cache</cachedir>
  <selectfont>
    <rejectfont><glob>/usr/share/fonts/*.*</glob></rejectfont>
    <acceptfont><glob>/usr/share/fonts/*DejaVuSans*</glob></acceptfont>
  </selectfont>
  <alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
</fontconfig>
`;

/**
 * Unpacks Chromium beside the other modules, once per version. The package unpacks into the temporary folder of its
 * process and takes whatever Chromium lies there already, so it runs in a process whose temporary folder is empty.
 */
async function unpacked(): Promise<string> {
  const { version } = JSON.parse(await readFile(join(MODULES, "@sparticuz/chromium/package.json"), "utf8"));
  const cache = join(MODULES, ".cache");
  const folder = join(cache, `chromium-${version}`);
  if (existsSync(folder)) return folder;
  await mkdir(cache, { recursive: true });
  const partial = await mkdtemp(join(cache, "chromium-partial-"));
  try {
    const unpack = "import chromium from '@sparticuz/chromium'; await chromium.executablePath();";
    await run(process.execPath, ["--input-type=module", "--eval", unpack], {
      cwd: MODULES,
      env: { ...process.env, TMPDIR: partial },
    });
    await rename(partial, folder).catch((error) => {
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
  return folder;
}

async function missingLibraries(executable: string): Promise<string[]> {
  const { stdout } = await run("ldd", [executable]);
  return [...stdout.matchAll(/^\s*(\S+) => not found$/gm)].flatMap(([, name]) => name ?? []);
}

async function provideLibraries(executable: string): Promise<void> {
  const missing = await missingLibraries(executable);
  if (missing.length === 0) return;
  const why = `Chromium needs shared libraries that are missing: ${missing.join(", ")}.`;
  const packages = new Set(missing.flatMap((name) => PACKAGES[name] ?? []));
  if (packages.size === 0) throw new Error(why);
  await installPackages([...packages], why);
  const still = await missingLibraries(executable);
  if (still.length > 0)
    throw new Error(`${why} Installing ${[...packages].join(", ")} left ${still.join(", ")} missing.`);
}

async function writeFontsConf(folder: string): Promise<string> {
  const path = join(folder, "fonts.conf");
  const partial = join(folder, `fonts.conf.${process.pid}`);
  await writeFile(partial, fontsConf(folder));
  await rename(partial, path);
  return path;
}

/** Without the font pages still work, only their screenshots suffer; so failing to install it stops nothing. */
async function provideFont(): Promise<void> {
  const files = await readdir("/usr/share/fonts", { recursive: true }).catch(() => []);
  if (files.some((file) => basename(file) === FONT.file)) return;
  await installPackages([FONT.debianPackage], `The font ${FONT.file} is missing.`).catch(() => undefined);
}

async function shipped(): Promise<{ executablePath: string; env: Record<string, string> }> {
  if (process.platform !== "linux" || process.arch !== "x64")
    throw new Error(
      `There is no Chromium for ${process.platform} ${process.arch} here. Set CHROMIUM_PATH to a Chrome or Chromium.`,
    );
  const folder = await unpacked();
  const executablePath = join(folder, "chromium");
  await provideLibraries(executablePath);
  await provideFont();
  return { executablePath, env: { FONTCONFIG_FILE: await writeFontsConf(folder) } };
}

/**
 * A headless Chromium. Closing it ends its processes and removes its profile; it ends by itself when this process does.
 * Installs the Debian packages that it lacks, as root on Debian; throws what to install elsewhere.
 */
export async function launchChromium(): Promise<Browser> {
  const given = process.env.CHROMIUM_PATH;
  const { executablePath, env } = given ? { executablePath: given, env: {} } : await shipped();
  // The sandbox refuses to run as root. The package's own arguments are left out: they switch off web security.
  return await chromium.launch({ executablePath, chromiumSandbox: false, env: { ...process.env, ...env } });
}
