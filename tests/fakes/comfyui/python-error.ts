/** An exception as Python would raise it; `type` has the module's name unless the class is built in. */
export class PythonError extends Error {
  readonly type: string;

  constructor(type: string, message: string) {
    super(message);
    this.type = type;
  }
}

/** An exception that a request handler does not catch: the answer is 500 with a text body. */
export class Trouble extends PythonError {
  constructor(message = "") {
    super("Exception", message);
  }
}

/** `InterruptProcessingException`: the flag was found set. */
export class Interrupted extends Error {}

/** Ends the worker thread and leaves the server standing, like a SystemExit raised by a node. */
export class WorkerDeath extends Error {}

/** Ends the whole process, like bytes in a ui output: the thread that sends messages dies of them. */
export class ProcessDeath extends Error {}
