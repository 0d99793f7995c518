/** Why a server may not be given work: the message is a sentence for the operator. */
export class Refused extends Error {}

/** Nothing listens there: what comes back is a new process. */
export class Gone extends Refused {}
