// What holds of a stream while daemons come and go, whatever its lines come by.

import assert from "node:assert/strict";
import { test } from "node:test";

import { DisconnectedError, type EventStream, type StreamOptions } from "../src/index.js";
import { Daemon } from "./daemon.js";
import { texts } from "./items.js";

/** `setUp`: before a daemon begins. `subscribe`: to this one. */
export function testLives(
  way: string,
  setUp: (daemon: Daemon) => Promise<unknown>,
  subscribe: (daemon: Daemon, options: StreamOptions) => EventStream,
): void {
  /** A test with a daemon of its own, which has taken the line "one". */
  function lived(
    name: string,
    body: (daemon: Daemon, begin: (options?: StreamOptions) => EventStream) => Promise<void>,
    chosen: StreamOptions = { filter: { kind: ["unparsed"] } },
  ): void {
    test(`${way}: ${name}`, async () => {
      const daemon = new Daemon();
      try {
        await setUp(daemon);
        await daemon.begin();
        await daemon.publish("one");
        const options = { after: "start", ...chosen };
        await body(daemon, (more) => subscribe(daemon, { ...options, ...more }));
      } finally {
        await daemon.close();
      }
    });
  }

  lived("every event comes once, whichever daemon it was written by", async (daemon, begin) => {
    const again = (text: string) => async () => {
      await daemon.kill();
      await daemon.begin();
      await daemon.publish(text);
    };

    assert.deepEqual(await texts(begin(), 3, again("two"), again("three")), ["one", "two", "three"]);
  });

  lived("a journal that is lost meanwhile is a gap", async (daemon, begin) => {
    const lose = async () => {
      await daemon.kill();
      daemon.forgetJournal();
      await daemon.begin();
      await daemon.publish("two");
    };

    assert.deepEqual(await texts(begin(), 3, lose), ["one", "1..0 reset", "two"]);
  });

  for (const [name, chosen] of [["no", {}], ["an empty", { filter: {} }]] as const) {
    const isMissing = async (daemon: Daemon, begin: () => EventStream) => {
      await daemon.publish("two");
      await daemon.publish("three");
      await daemon.kill();
      daemon.deleteEvent(2);
      await daemon.begin();

      assert.deepEqual(await texts(begin(), 3), ["one", "2..2 corrupt", "three"]);
    };
    lived(`with ${name} filter an event that is missing is a gap`, isMissing, chosen);
  }

  lived("without reconnecting the end of the daemon is an error", async (daemon, begin) => {
    const stream = begin({ reconnect: false });

    await assert.rejects(texts(stream, 2, () => daemon.kill()), DisconnectedError);
  });

  lived("a signal ends a loop that waits, for events or for the daemon", async (daemon, begin) => {
    for (const act of [async () => {}, () => daemon.kill()]) {
      const controller = new AbortController();
      const stop = async () => {
        await act();
        controller.abort();
      };
      const stream = begin({ signal: controller.signal });
      await assert.rejects(texts(stream, 2, stop), { name: "AbortError" });
    }
  });
}
