import { Hono } from "hono";
import type { PortalEnv } from "./guard.ts";
import { accountPages } from "./operator-accounts.tsx";
import { fleetPages } from "./operator-fleet.tsx";
import { invitationPages } from "./operator-invitations.tsx";
import { operatorLists } from "./operator-lists.tsx";
import { operatorLive } from "./operator-live.ts";
import { runnerPages } from "./operator-runner.tsx";

/** The console, under /portal/operator. Whoever mounts it lets operators through alone. */
export const operatorPages = () =>
  new Hono<PortalEnv>()
    .route("/accounts", accountPages)
    .route("/invitations", invitationPages)
    .route("/live", operatorLive)
    .route("/runners", runnerPages)
    .route("/", operatorLists)
    .route("/", fleetPages);
