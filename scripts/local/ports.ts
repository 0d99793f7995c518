import { createServer } from "node:net";

const HOST = "127.0.0.1";

function tryPort(port: number): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE" || error.code === "EACCES") resolve(undefined);
      else reject(error);
    });
    server.listen(port, HOST, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : undefined));
    });
  });
}

/**
 * A free port on loopback: the wanted one, or another, which is said. With `fixed` a busy port is an error instead.
 * @param say told when another port is taken
 */
export async function freePort(wanted: number, fixed: boolean, say: (line: string) => void): Promise<number> {
  const port = await tryPort(wanted);
  if (port !== undefined) return port;
  if (fixed) throw new Error(`Port ${wanted} is in use. Choose another with --port.`);
  const other = await tryPort(0);
  if (other === undefined) throw new Error("No free port on loopback.");
  say(`port ${wanted} is in use, taking ${other} instead`);
  return other;
}
