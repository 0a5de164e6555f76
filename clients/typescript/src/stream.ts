// A subscription as an async iterable, over any transport.

import { ConnectError, DaemonError, DisconnectedError } from "./errors.js";
import type { AnyEvent, DaemonFrame, Filter, Gap } from "./schema.js";
import { pauses, sleep } from "./waiting.js";

export interface StreamOptions {
  /** `start`, `now` (the default), a `seq`, or the `cursor` of an earlier stream. */
  after?: string | number;
  /** OR inside a list, AND between keys. */
  filter?: Filter;
  /** Also live parts of messages and outputs, which have no `seq` and may be dropped. */
  partials?: boolean;
  /** False: the end of the daemon is a `DisconnectedError`. Default: wait for the daemon and resume without loss. */
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
 * Made by `subscribe`, for `for await`. Iterating connects. It throws `ConnectError` if there is no daemon, and
 * `DaemonError` if the daemon refuses the request. Leaving the loop disconnects; iterating again resumes after the last
 * item. A newer daemon may send kinds, keys and values that are not in the types: ignore them.
 */
export class EventStream<E = AnyEvent> implements AsyncIterable<E | Gap> {
  private journal = "";
  private seq: string | undefined;

  /** `open` subscribes, after `after` if it is given. `follow`: whether the subscription is endless. */
  constructor(
    private readonly open: (after: string | number | undefined) => Promise<Lines>,
    private readonly options: StreamOptions,
    private readonly follow = true,
  ) {}

  /** The cursor after the last item: pass it as `after` to resume. Save it when the item has been processed. */
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

  /** Reconnects as soon as there is a daemon. */
  private async beginAgain(): Promise<Lines> {
    for (const pause of pauses(Infinity)) {
      try {
        return await this.begin();
      } catch (error) {
        if (!(error instanceof ConnectError)) {
          throw error;
        }
      }
      await sleep(pause, this.options.signal);
    }
    throw new DisconnectedError();
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
      case "gap": // the cursor stays: some events in the gap may still exist and come next
        return frame;
      case "error":
        throw new DaemonError(frame.code, frame.message);
      default:
        return undefined;
    }
  }
}
