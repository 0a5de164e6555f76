// A subscription as an async iterable, whatever its lines come by.

import { ConnectError, DaemonError, DisconnectedError } from "./errors.js";
import type { AnyEvent, DaemonFrame, Filter, Gap } from "./schema.js";

/** Milliseconds between attempts to reach a daemon that is away. */
const RETRY_FIRST = 100;
const RETRY_MOST = 2_000;

export interface StreamOptions {
  /** `start`, `now` (the default), a `seq`, or a `cursor` kept from earlier. */
  after?: string | number;
  /** OR inside a list, AND between keys. */
  filter?: Filter;
  /** Live previews too, of messages and outputs; they have no `seq` and may be dropped. */
  partials?: boolean;
  /** False: the end of the daemon is a `DisconnectedError`; else it is waited for, and events go on without loss. */
  reconnect?: boolean;
  /** Ends the loop, which then throws the signal's reason. */
  signal?: AbortSignal;
}

export interface Lines {
  /** The next line, without its newline. Throws `DisconnectedError`. */
  line(): Promise<string>;
  close(): void;
}

/**
 * Made by `subscribe`, to be used with `for await`. Iterating connects, and throws `ConnectError` if no daemon is
 * there and `DaemonError` for what the daemon refuses. Leaving the loop disconnects; iterating again goes on where it
 * was left. A newer daemon may give kinds, keys and values that are not in the types: ignore them.
 */
export class EventStream<E = AnyEvent> implements AsyncIterable<E | Gap> {
  private journal = "";
  private seq: string | undefined;

  /** `open` subscribes, behind `after` if it is given. `follow`: whether there is no end. */
  constructor(
    private readonly open: (after: string | number | undefined) => Promise<Lines>,
    private readonly options: StreamOptions,
    private readonly follow = true,
  ) {}

  /** Behind the last item given: pass it as `after` to go on from there. Keep it when the item has been dealt with. */
  get cursor(): string | undefined {
    return this.seq === undefined ? undefined : `${this.journal}:${this.seq}`;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<E | Gap, void, undefined> {
    let connection = await this.begin();
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
          connection = await this.beginAgain();
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

  private begin(): Promise<Lines> {
    return this.open(this.cursor ?? this.options.after);
  }

  /** As soon as there is a daemon. */
  private async beginAgain(): Promise<Lines> {
    for (let wait = RETRY_FIRST; ; wait = Math.min(wait * 2, RETRY_MOST)) {
      try {
        return await this.begin();
      } catch (error) {
        if (!(error instanceof ConnectError)) {
          throw error;
        }
      }
      await sleep(wait, this.options.signal);
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
        return frame.op === "live" && !this.follow ? "end" : undefined;
      case "gap": // the cursor stays: some of what it names may be there still, and comes next
        return frame;
      case "error":
        throw new DaemonError(frame.code, frame.message);
      default:
        return undefined;
    }
  }
}

/** Throws the signal's reason. */
function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
