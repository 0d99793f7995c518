import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { findIdentity, putIdentity } from "../../worker/directory/identities.ts";
import { SESSION_COOKIE, type Session, sealSession } from "../../worker/portal/session.ts";
import { TEST_BINDINGS } from "./bindings.ts";
import { BASE, call } from "./service.ts";

export const ISS = "https://login.example.com";
export const CSRF = "csrf-of-this-session-0123456789ab";
let people = 0;

/** Somebody with a session: an operator by the role that the provider gave, unless said otherwise. */
export class Person {
  readonly session: Session;
  readonly cookie: string;

  private constructor(session: Session, cookie: string) {
    this.session = session;
    this.cookie = cookie;
  }

  static async make(part: Partial<Session> = {}): Promise<Person> {
    const identity = { iss: ISS, sub: `person-${++people}` };
    const name = part.name ?? "Ada Lovelace";
    await putIdentity(env.DIRECTORY, identity, { account_id: null, name }, Date.now());
    const known = await findIdentity(env.DIRECTORY, identity);
    const session = {
      identity,
      name,
      account_epoch: 0,
      identity_epoch: known?.epoch ?? 0,
      operator: true,
      csrf: CSRF,
      ...part,
    };
    return new Person(session, `${SESSION_COOKIE}=${await sealSession(TEST_BINDINGS, session)}`);
  }

  get(path: string): Promise<Response> {
    return call(`/portal/operator${path}`, { headers: { cookie: this.cookie }, redirect: "manual" });
  }

  async page(path: string): Promise<string> {
    const response = await this.get(path);
    expect(response.status, path).toBe(200);
    return response.text();
  }

  /** A form as a page of ours sends it. */
  post(path: string, fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Response> {
    return call(`/portal/operator${path}`, {
      method: "POST",
      headers: { cookie: this.cookie, origin: BASE, ...headers },
      body: new URLSearchParams({ csrf: CSRF, form: crypto.randomUUID(), ...fields }),
      redirect: "manual",
    });
  }
}
