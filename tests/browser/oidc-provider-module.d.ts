/** What oidc-provider.ts uses of the package, which ships no types. */
declare module "oidc-provider" {
  import type { EventEmitter } from "node:events";
  import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";

  /** A Koa context, as far as it is used. */
  export interface Context {
    readonly req: IncomingMessage;
    readonly res: ServerResponse;
    readonly method: string;
    readonly path: string;
    query: Readonly<Record<string, string | string[] | undefined>>;
    status: number;
    type: string;
    body: unknown;
    readonly response: { get(header: string): string };
    set(header: string, value: string): void;
    redirect(url: string): void;
  }

  export interface Grant {
    addOIDCScope(scope: string): void;
    save(): Promise<string>;
  }

  export interface GrantContext {
    readonly oidc: {
      readonly client: { readonly clientId: string };
      readonly session: { readonly accountId: string };
      readonly params: { readonly scope?: string };
    };
  }

  export interface Account {
    readonly accountId: string;
    claims(): Promise<Record<string, unknown>>;
  }

  export interface ClientMetadata {
    readonly client_id: string;
    readonly client_secret?: string;
    readonly token_endpoint_auth_method: string;
    readonly redirect_uris: readonly string[];
    readonly response_types: readonly string[];
    readonly grant_types: readonly string[];
  }

  export interface Configuration {
    readonly claims?: Readonly<Record<string, readonly string[]>>;
    readonly clients?: readonly ClientMetadata[];
    readonly conformIdTokenClaims?: boolean;
    readonly cookies?: { readonly keys: readonly string[]; readonly names: Readonly<Record<string, string>> };
    readonly features?: {
      readonly devInteractions: { readonly enabled: boolean };
      readonly rpInitiatedLogout: {
        readonly logoutSource: (context: Context, form: string) => void;
        readonly postLogoutSuccessSource: (context: Context) => void;
      };
    };
    readonly findAccount?: (context: unknown, id: string) => Promise<Account | undefined>;
    readonly interactions?: { readonly url: (context: unknown, interaction: { readonly uid: string }) => string };
    readonly jwks?: { readonly keys: readonly object[] };
    readonly loadExistingGrant?: (context: GrantContext) => Promise<Grant>;
    readonly pkce?: { readonly required: () => boolean };
    readonly renderError?: (context: Context, out: Readonly<Record<string, string>>, error: Error) => void;
    readonly ttl?: Readonly<Record<string, number>>;
  }

  export interface Interaction {
    readonly params: { readonly client_id: string; readonly login_hint?: string };
  }

  export interface InteractionResult {
    readonly login?: { readonly accountId: string };
    readonly error?: string;
    readonly error_description?: string;
  }

  export class Provider extends EventEmitter {
    constructor(issuer: string, configuration: Configuration);
    readonly Client: {
      readonly prototype: {
        redirectUriAllowed(uri: string): boolean;
        postLogoutRedirectUriAllowed(uri: string): boolean;
      };
    };
    readonly Grant: new (properties: {
      readonly accountId: string;
      readonly clientId: string;
    }) => Grant;
    callback(): RequestListener;
    use(middleware: (context: Context, next: () => Promise<void>) => Promise<void>): this;
    interactionDetails(request: IncomingMessage, response: ServerResponse): Promise<Interaction>;
    /** Where to go on to. */
    interactionResult(request: IncomingMessage, response: ServerResponse, result: InteractionResult): Promise<string>;
  }
}
