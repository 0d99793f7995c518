/**
 * Bindings and settings of the service. `worker-configuration.d.ts` is generated from wrangler.toml (`npm run bindings`);
 * secrets are named here because no file lists them.
 */
export interface Env extends Cloudflare.Env {
  /** Private Ed25519 JWK with `kid`, as JSON. */
  readonly EDGE_SIGNING_KEY: string;
  /** At least 32 random bytes, base64url: signs output URLs. */
  readonly OUTPUT_URL_KEY: string;
  /** At least 32 random bytes, base64url: signs the portal's cookies and makes the keys that it shows once. */
  readonly SESSION_KEY: string;
  /** The secret of the portal at its OpenID provider; absent or empty for a public client. */
  readonly OIDC_CLIENT_SECRET?: string;
  /** SHA-256 (base64url) of each operator token that is good, separated by commas. */
  readonly OPERATOR_TOKEN_HASHES: string;
}
