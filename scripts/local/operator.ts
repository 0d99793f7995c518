/** One call of an operator route; resolves to its JSON object, rejects with the service's own words. */
export async function callOperator<T = Record<string, unknown>>(
  baseUrl: string,
  token: string,
  method: "GET" | "POST",
  path: string,
  body?: Record<string, unknown>,
): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`${baseUrl}/operator${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body ? { "content-type": "application/json" } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: AbortSignal.timeout(30_000),
    });
  } catch (error) {
    throw new Error(`No answer from ${baseUrl}: is the service running?`, { cause: error });
  }
  const text = await response.text();
  let answer: T & { error?: { code: string; message: string } };
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Error(`${baseUrl} answered ${response.status} and no JSON: it may not be the service.`);
  }
  if (!response.ok)
    throw new Error(answer.error ? `${answer.error.code}: ${answer.error.message}` : `status ${response.status}`);
  return answer;
}
