// The client over HTTP, for browsers and every runtime with `fetch`. See README.md for examples.

import { ConnectError, DaemonError, DisconnectedError } from "./errors.js";
import type { AnyDisplayEvent, AnyEvent, Results } from "./schema.js";
import { EventStream, type Lines, type StreamOptions } from "./stream.js";

export * from "./errors.js";
export * from "./guards.js";
export * from "./schema.js";
export { EventStream, type StreamOptions } from "./stream.js";

export interface Gateway {
  /** Where `tooltap serve --web` listens. Default: the origin of the page. */
  url?: string;
  /** The token at the end of the link that it prints. A page opened with that link needs none. */
  token?: string;
}

export type SubscribeOptions = StreamOptions & Gateway;

/**
 * Subscribes to events after `after`, in the order of the journal, each once. A `Gap` among them reports which events
 * will not come: they were too old (`retention`), are damaged on disk (`corrupt`), or the cursor belongs to another
 * journal (`reset`).
 */
export function subscribe(options?: SubscribeOptions & { as?: "events" }): EventStream;

/** Display events: what a user interface shows. Filters and cursors still refer to events. */
export function subscribe(options: SubscribeOptions & { as: "display" }): EventStream<AnyDisplayEvent>;

export function subscribe(
  options: SubscribeOptions & { as?: "events" | "display" } = {},
): EventStream<AnyEvent | AnyDisplayEvent> {
  const { filter = {}, partials, as } = options;
  return new EventStream(
    (after) => Messages.open(options, { ...filter, partials, as }, after, options.signal),
    options,
  );
}

/** `GET /api/sessions`: newest first; `before`: the `next` of the previous page. */
export function sessions(
  gateway: Gateway = {},
  query: { limit?: number; before?: number } = {},
): Promise<Results["sessions"]> {
  return get(gateway, "/api/sessions", query);
}

/** `GET /api/events/<seq>`: one event in one view. */
export function event(
  gateway: Gateway,
  seq: number,
  view: "assistant" | "display" | "raw" = "raw",
): Promise<Results["event"]> {
  return get(gateway, `/api/events/${seq}`, { view });
}

/** `GET /api/stats`: the daemon's statistics. */
export function stats(gateway: Gateway = {}): Promise<Record<string, unknown>> {
  return get(gateway, "/api/stats", {});
}

type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

async function get<Result>(gateway: Gateway, path: string, query: Query): Promise<Result> {
  const response = await fetched(gateway, path, query, {});
  return (await response.json()) as Result;
}

/** Throws `ConnectError`, `DaemonError`, or the signal's reason. */
async function fetched(
  { url, token }: Gateway,
  path: string,
  query: Query,
  headers: Record<string, string>,
  signal?: AbortSignal,
): Promise<Response> {
  const { location } = globalThis as { location?: { origin: string } };
  const address = new URL(path, url ?? location?.origin);
  for (const [key, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) {
        address.searchParams.append(key, String(one));
      }
    }
  }
  if (token !== undefined) {
    headers["Authorization"] = `Bearer ${token}`;
  }
  let response: Response;
  try {
    response = await fetch(address, { headers, ...(signal ? { signal } : {}) });
  } catch {
    signal?.throwIfAborted();
    throw new ConnectError(`no daemon answers at ${address.origin}; start one with \`tooltap serve --web\``);
  }
  if (!response.ok) {
    throw await refusal(response);
  }
  return response;
}

async function refusal(response: Response): Promise<Error> {
  try {
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    return response.status === 503 ? new ConnectError(error.message) : new DaemonError(error.code, error.message);
  } catch {
    return new ConnectError(`what answers at ${new URL(response.url).origin} is not a tooltap daemon`);
  }
}

/** Server-sent events; each carries one line of a subscription. */
class Messages implements Lines {
  private constructor(
    private readonly lines: AsyncGenerator<string>,
    private readonly controller: AbortController,
  ) {}

  static async open(
    gateway: Gateway,
    query: Query,
    after: string | number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Messages> {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const abort = () => controller.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    controller.signal.addEventListener("abort", () => signal?.removeEventListener("abort", abort));
    const headers = { Accept: "text/event-stream" };
    const response = await fetched(gateway, "/api/events", { ...query, after }, headers, controller.signal);
    return new Messages(dataOf(response), controller);
  }

  async line(): Promise<string> {
    const next = await this.lines.next();
    if (next.done) {
      this.close();
      throw new DisconnectedError();
    }
    return next.value;
  }

  close(): void {
    this.controller.abort();
  }
}

/** The content of the `data:` lines, without a last line that is incomplete. */
async function* dataOf(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  let rest: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      const [first = "", ...following] = decoder.decode(value, { stream: true }).split("\n");
      rest.push(first);
      if (following.length > 0) {
        const lines = [rest.join(""), ...following];
        rest = [lines.pop() ?? ""];
        for (const line of lines) {
          if (line.startsWith("data: ")) {
            yield line.slice(6);
          }
        }
      }
    }
  } catch {
    // a broken connection counts as its end
  }
}
