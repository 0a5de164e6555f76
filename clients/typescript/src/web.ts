// The client over HTTP, for browsers and every runtime with `fetch`. See README.md for examples.

import { ConnectError, DaemonError, DisconnectedError } from "./errors.js";
import type { AnswerRequest, AnyDisplayEvent, AnyEvent, InterruptRequest, Results, SendRequest } from "./schema.js";
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

/** `GET /api/waiting`: what waits for a person. */
export function waiting(
  gateway: Gateway = {},
  query: { session?: readonly string[]; provider?: readonly string[]; project?: readonly string[]; mayAfter?: number } = {},
): Promise<Results["waiting"]> {
  return get(gateway, "/api/waiting", query);
}

type Fields<Frame> = Omit<Frame, "op" | "id" | "speaks">;

/** `POST /api/answer`: throws a `DaemonError` with the code `already-answered` if another answer was first. */
export function answer(gateway: Gateway, fields: Fields<AnswerRequest>): Promise<Results["answer"]> {
  return post(gateway, "/api/answer", fields);
}

/** `POST /api/send`: a prompt for the agent of a session. */
export function send(gateway: Gateway, fields: Fields<SendRequest>): Promise<Results["send"]> {
  return post(gateway, "/api/send", fields);
}

/** `POST /api/interrupt`: interrupts the turn of a session. */
export function interrupt(gateway: Gateway, fields: Fields<InterruptRequest>): Promise<Results["interrupt"]> {
  return post(gateway, "/api/interrupt", fields);
}

type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

async function get<Result>(gateway: Gateway, path: string, query: Query): Promise<Result> {
  const response = await fetched(gateway, path, query, {});
  return (await response.json()) as Result;
}

async function post<Result>(gateway: Gateway, path: string, fields: object): Promise<Result> {
  const headers = { "Content-Type": "application/json" };
  const response = await fetched(gateway, path, {}, headers, { method: "POST", body: JSON.stringify(fields) });
  return (await response.json()) as Result;
}

/** Throws `ConnectError`, `DaemonError`, or the signal's reason. */
async function fetched(
  { url, token }: Gateway,
  path: string,
  query: Query,
  headers: Record<string, string>,
  options: { method?: string; body?: string; signal?: AbortSignal } = {},
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
    response = await fetch(address, { headers, ...options });
  } catch {
    options.signal?.throwIfAborted();
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
    const life = new Life(controller);
    try {
      const response = await fetched(gateway, "/api/events", { ...query, after }, headers, {
        signal: controller.signal,
      });
      return new Messages(dataOf(response, life), controller);
    } catch (error) {
      life.end();
      signal?.throwIfAborted();
      throw controller.signal.aborted ? new ConnectError("the daemon does not answer") : error;
    }
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

/** Milliseconds between two heartbeats, until the first one says it. */
const PERIOD = 15_000;
/** Periods of silence after which a connection counts as dead: after sleep, or in a tunnel that is stuck. */
const SILENT = 3;

/** Aborts a connection that is dead, and in a browser one that is late when the page wakes up. */
class Life {
  private period = PERIOD;
  private heard = Date.now();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly scope = globalThis as unknown as EventTarget & { document?: EventTarget & { hidden: boolean } };

  constructor(private readonly controller: AbortController) {
    this.scope.addEventListener?.("online", this.abort);
    this.scope.document?.addEventListener("visibilitychange", this.look);
    controller.signal.addEventListener("abort", () => this.end());
    this.hear();
  }

  hear(line = ""): void {
    if (line.startsWith('{"op":"heartbeat"')) {
      this.period = 1_000 * (JSON.parse(line) as { period: number }).period;
    }
    this.heard = Date.now();
    clearTimeout(this.timer);
    this.timer = setTimeout(this.abort, SILENT * this.period);
    (this.timer as { unref?: () => void }).unref?.();
  }

  end(): void {
    clearTimeout(this.timer);
    this.scope.removeEventListener?.("online", this.abort);
    this.scope.document?.removeEventListener("visibilitychange", this.look);
  }

  private readonly abort = (): void => this.controller.abort();

  private readonly look = (): void => {
    if (!this.scope.document?.hidden && Date.now() - this.heard > 1.5 * this.period) {
      this.abort();
    }
  };
}

/** The content of the `data:` lines, without a last line that is incomplete. */
async function* dataOf(response: Response, life: Life): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  let rest: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      life.hear();
      const [first = "", ...following] = decoder.decode(value, { stream: true }).split("\n");
      rest.push(first);
      if (following.length > 0) {
        const lines = [rest.join(""), ...following];
        rest = [lines.pop() ?? ""];
        for (const line of lines) {
          if (line.startsWith("data: ")) {
            life.hear(line.slice(6));
            yield line.slice(6);
          }
        }
      }
    }
  } catch {
    // a broken connection counts as its end
  } finally {
    life.end();
  }
}
