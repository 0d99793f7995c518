import { isLoopbackHost } from "../schemas/targets.ts";
import { configOf } from "./config.ts";
import { searchAccounts } from "./directory/directory.ts";
import type { Env } from "./env.ts";
import { fieldsOf, localPath } from "./portal/guard.ts";
import type { DevelopmentSignIn } from "./portal/sign-in.tsx";

/**
 * Signs in whoever sits at this machine, as any account that is here or as an operator. Belongs to `worker/local.ts`; no deploy
 * bundle contains it. It wants a loopback address of the service and of the request, and no strict start.
 */
export const developmentSignIn = (isStrict: (env: Env) => boolean): DevelopmentSignIn => ({
  allowed: ({ env, req }) =>
    !isStrict(env) &&
    isLoopbackHost(new URL(configOf(env).baseUrl).hostname) &&
    isLoopbackHost(new URL(req.url).hostname),

  async offer({ env, req }) {
    const accounts = await searchAccounts(env.DIRECTORY, { text: "" }, 50);
    const return_to = localPath(req.query("return_to"));
    return (
      <form class="row" method="post" action={`/portal/sign-in/development?return_to=${encodeURIComponent(return_to)}`}>
        <label>
          Account
          <select name="account">
            {accounts.toReversed().map(({ account_id, email }) => (
              <option value={account_id}>{`${email.slice(0, 60)} (${account_id})`}</option>
            ))}
            <option value="">a new one</option>
          </select>
        </label>
        <label>
          As
          <select name="role">
            <option value="operator">owner and operator</option>
            <option value="owner">owner</option>
          </select>
        </label>
        <button type="submit">Sign in for development</button>
      </form>
    );
  },

  async identify(c) {
    const { account = "", role } = await fieldsOf(c);
    const operator = role === "operator";
    const sub = `${account || crypto.randomUUID()} as ${operator ? "operator" : "owner"}`;
    return {
      who: {
        identity: { iss: "urn:darkroom:development", sub },
        name: `Developer (${operator ? "operator" : "owner"})`,
        operator,
      },
      ...(account === "" ? {} : { account_id: account }),
    };
  },
});
