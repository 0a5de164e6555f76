// Subscribing and asking. See README.md for examples.

import { setTimeout as sleep } from "node:timers/promises";

import { ConnectError, Connection, DaemonError, DisconnectedError, socketPath } from "./connection.js";
import type {
  AnyDisplayEvent,
  AnyEvent,
  ClientFrame,
  DaemonFrame,
  Filter,
  Gap,
  Ingest,
  Results,
  StoreRequest,
  Subscribe,
  ToolCall,
  ToolResult,
  Tools,
} from "./schema.js";

/** Milliseconds between attempts to reach a daemon that is away. */
const RETRY_FIRST = 100;
const RETRY_MOST = 2_000;

export interface SubscribeOptions {
  /** `start`, `now` (the default), a `seq`, or a `cursor` kept from earlier. */
  after?: string | number;
  /** OR inside a list, AND between keys. */
  filter?: Filter;
  /** Live previews too, of messages and outputs; they have no `seq` and may be dropped. */
  partials?: boolean;
  /** False: end where the journal does. */
  follow?: boolean;
  /** False: the end of the daemon is a `DisconnectedError`; else it is waited for, and events go on without loss. */
  reconnect?: boolean;
  /** Of the socket, if not the default one. */
  path?: string;
  /** Ends the loop, which then throws the signal's reason. */
  signal?: AbortSignal;
}

/**
 * Events from `after` on, in the order of the journal, each once. A `Gap` among them says which will not come: they
 * were too old (`retention`), or the cursor was of another journal (`reset`).
 */
export function subscribe(options?: SubscribeOptions & { as?: "events" }): EventStream;

/** What a user interface shows of the events; filters and cursors are those of the events. */
export function subscribe(options: SubscribeOptions & { as: "display" }): EventStream<AnyDisplayEvent>;

export function subscribe(options: Options = {}): EventStream<AnyEvent | AnyDisplayEvent> {
  return new EventStream(options);
}

type Options = SubscribeOptions & { as?: "events" | "display" };

/**
 * Made by `subscribe`, to be used with `for await`. Iterating connects, and throws `ConnectError` if no daemon is
 * there and `DaemonError` for what the daemon refuses. Leaving the loop disconnects; iterating again goes on where it
 * was left. A newer daemon may give kinds, keys and values that are not in the types: ignore them.
 */
export class EventStream<E = AnyEvent> implements AsyncIterable<E | Gap> {
  private journal = "";
  private seq: string | undefined;

  constructor(private readonly options: Options) {}

  /** Behind the last item given: pass it as `after` to go on from there. Keep it when the item has been dealt with. */
  get cursor(): string | undefined {
    return this.seq === undefined ? undefined : `${this.journal}:${this.seq}`;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<E | Gap, void, undefined> {
    let connection = await this.open();
    try {
      for (;;) {
        let line: string;
        try {
          line = await connection.line();
        } catch (error) {
          this.options.signal?.throwIfAborted();
          if (!(error instanceof DisconnectedError) || this.options.reconnect === false) {
            throw error;
          }
          connection = await this.reopen();
          continue;
        }
        const item = this.take(line);
        if (item === "end") {
          return;
        }
        if (item !== undefined) {
          yield item;
        }
      }
    } finally {
      connection.close();
    }
  }

  private async open(): Promise<Connection> {
    const { after, filter, partials, as, follow, path, signal } = this.options;
    const connection = await Connection.open(path ?? socketPath(), signal);
    const frame = { op: "subscribe", after: this.cursor ?? after, filter, partials, as, follow };
    connection.send(frame as Subscribe);
    return connection;
  }

  /** As soon as there is a daemon. */
  private async reopen(): Promise<Connection> {
    for (let wait = RETRY_FIRST; ; wait = Math.min(wait * 2, RETRY_MOST)) {
      try {
        return await this.open();
      } catch (error) {
        if (!(error instanceof ConnectError)) {
          throw error;
        }
      }
      await sleep(wait, undefined, this.options.signal ? { signal: this.options.signal } : {});
    }
  }

  private take(line: string): E | Gap | "end" | undefined {
    if (!line.startsWith('{"op":')) {
      if (line.startsWith('{"seq":')) {
        this.seq = line.slice(7, line.indexOf(","));
      }
      return JSON.parse(line) as E;
    }
    const frame = JSON.parse(line) as DaemonFrame;
    switch (frame.op) {
      case "subscribed":
        this.journal = frame.journal;
        this.seq = String(frame.after);
        return undefined;
      case "live":
      case "at":
        this.seq = String(frame.seq);
        return frame.op === "live" && this.options.follow === false ? "end" : undefined;
      case "gap": // the cursor stays: some of what it names may be there still, and comes next
        return frame;
      case "error":
        throw new DaemonError(frame.code, frame.message);
      default:
        return undefined;
    }
  }
}

/** What can be asked, but `store`, whose body follows its frame: `{ op: "event", seq: 5, view: "display" }`, `{ op: "sessions" }`, … */
export type Request = Exclude<ClientFrame, Subscribe | Ingest | StoreRequest>;

/** What the answer holds. */
export type ResultOf<Op extends Request["op"]> = Op extends keyof Results ? Results[Op] : Record<string, unknown>;

/** The result of one request. Throws `ConnectError`, `DaemonError` and `DisconnectedError`. */
export async function request<Asked extends Request>(
  asked: Asked,
  path: string = socketPath(),
): Promise<ResultOf<Asked["op"]>> {
  const connection = await Connection.open(path);
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

export function isGap(item: object): item is Gap {
  return "op" in item;
}

/** A call of this tool, with its `input` typed. */
export function isCall<Name extends keyof Tools>(
  item: AnyEvent | Gap,
  name: Name,
): item is ToolCall & { name: Name; input: Tools[Name]["input"] } {
  return "kind" in item && item.kind === "tool-call" && item.name === name;
}

/** A result of this tool, with its `output` typed. */
export function isResult<Name extends keyof Tools>(
  item: AnyEvent | Gap,
  name: Name,
): item is ToolResult & { name: Name; output: Tools[Name]["output"] } {
  return "kind" in item && item.kind === "tool-result" && item.name === name;
}
