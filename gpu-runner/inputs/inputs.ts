/** The contract between an engine and what fetches its customers' files. */

/** What a node takes. A video file is taken for audio too: it may carry some. */
export type InputKind = "image" | "audio" | "video" | "any";

/** A URL that stands where a node wants a file. */
export interface WantedInput {
  readonly url: string;
  readonly kind: InputKind;
  /** Of this file; what a job may fetch in all bounds it anyway. */
  readonly max_bytes?: number;
}

/** Its type is told from its bytes, whatever its server calls it. */
export interface InputFile {
  /** In the cache. It must not be written to. */
  readonly path: string;
  readonly size_bytes: number;
  /** Hex. */
  readonly sha256: string;
  /** `application/octet-stream` where the bytes are of no known type. */
  readonly content_type: string;
  /** Without a dot, lower case; `bin` where the bytes are of no known type. */
  readonly extension: string;
}

/** `download_ms` is the time that all of it took, by a monotonic clock. */
export type InputsFetched =
  | {
      readonly ok: true;
      /** By the URLs as they were given. */
      readonly files: ReadonlyMap<string, InputFile>;
      readonly download_ms: number;
      /** The caller needs the files no longer: from now on they may be removed. Idempotent. */
      release(): void;
    }
  | {
      readonly ok: false;
      readonly reason: "refused";
      /** The URL that failed, as it was given. It may hold secrets of the customer: for finding its node, not for a log. */
      readonly url: string;
      /** For the customer. Of the URL it repeats the host alone, and it tells nothing of the operator's network. */
      readonly message: string;
      readonly download_ms: number;
    }
  /** The signal was aborted. Nothing is open any more, and no file is in use. */
  | { readonly ok: false; readonly reason: "aborted" };

export interface Inputs {
  /**
   * Fetches all of them or none, each different URL once. The first that fails ends the others. Rejects for faults of the disk only.
   */
  fetch(wanted: readonly WantedInput[], signal: AbortSignal): Promise<InputsFetched>;
}
