/** Settings of the Worker under test. The keys are made for tests and used nowhere else. */

export const OPERATOR_TOKEN = "op_test_token_of_the_worker_tests";

/** Takes what waits too long in other pools. */
export const SPILLOVER_POOL = "elsewhere";

export const TEST_BINDINGS = {
  PUBLIC_BASE_URL: "http://127.0.0.1:8787",
  EDGE_SIGNING_KEY: JSON.stringify({
    kty: "OKP",
    crv: "Ed25519",
    kid: "test-edge",
    d: "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
    x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
  }),
  OUTPUT_URL_KEY: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
  SESSION_KEY: "HxwdHhsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA",
  // SHA-256 of OPERATOR_TOKEN, base64url.
  OPERATOR_TOKEN_HASHES: "9a9BSqYeSgxix4KRGDU23ILbrpVr0qQjE5c-xvYHdyc",
  SPILLOVER_POOLS: SPILLOVER_POOL,
  LOCAL_STRICT: "0",
};
