// The client over the daemon's Unix socket. See README.md for examples.

import { reach, type PlaceOptions } from "./discovery.js";
import { DaemonError } from "./errors.js";
import type {
  AnyDisplayEvent,
  AnyEvent,
  ClientFrame,
  DaemonFrame,
  Ingest,
  Results,
  StoreRequest,
  Subscribe,
} from "./schema.js";
import { EventStream, type StreamOptions } from "./stream.js";

export interface SubscribeOptions extends StreamOptions, PlaceOptions {
  /** False: end at the end of the journal. */
  follow?: boolean;
}

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
  const { filter, partials, as, follow } = options;
  const open = async (after: string | number | undefined) => {
    const connection = await reach(options);
    connection.send({ op: "subscribe", after, filter, partials, as, follow } as Subscribe);
    return connection;
  };
  return new EventStream(open, options, follow !== false);
}

/** All requests except `store`, whose body follows its frame: `{ op: "event", seq: 5, view: "display" }`, `{ op: "sessions" }`, … */
export type Request = Exclude<ClientFrame, Subscribe | Ingest | StoreRequest>;

/** The results of the requests. */
export type ResultOf<Op extends Request["op"]> = Op extends keyof Results ? Results[Op] : Record<string, unknown>;

/**
 * Returns the result of one request. Throws `ConnectError`, `DaemonError` and `DisconnectedError`.
 *
 * `place`: the path of the socket, or how to find and await the daemon.
 */
export async function request<Asked extends Request>(
  asked: Asked,
  place: string | PlaceOptions = {},
): Promise<ResultOf<Asked["op"]>> {
  const connection = await reach(typeof place === "string" ? { path: place } : place);
  try {
    connection.send({ ...asked, id: 1 });
    for (;;) {
      const frame = JSON.parse(await connection.line()) as DaemonFrame;
      if (frame.op === "reply") {
        if (frame.error) {
          throw new DaemonError(frame.error.code, frame.error.message);
        }
        return frame.result as ResultOf<Asked["op"]>;
      }
    }
  } finally {
    connection.close();
  }
}
