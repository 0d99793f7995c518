/** What travels in the webhook queue: which round of which job. No secret, no URL, no payload. */
export interface WebhookMessage {
  readonly account: string;
  readonly job: string;
  readonly round: number;
}
