/** Why a server may not be given work: the message is a sentence for the operator. */
export class Refused extends Error {}

/** No restart mends it: the server, or the runner, was started with the wrong settings. */
export class Misconfigured extends Refused {}

/** Nothing listens there: what comes back is a new process. */
export class Gone extends Refused {}
