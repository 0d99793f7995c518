declare namespace Cloudflare {
  interface Env {
    readonly DIRECTORY_MIGRATIONS: import("@cloudflare/vitest-plugin").D1Migration[];
    readonly EDGE_SIGNING_KEY: string;
    readonly OUTPUT_URL_KEY: string;
    readonly SESSION_KEY: string;
    readonly OPERATOR_TOKEN_HASHES: string;
  }
}
