// The client against real daemons.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";

import {
  ConnectError,
  DaemonError,
  DisconnectedError,
  isCall,
  isGap,
  isResult,
  request,
  subscribe,
  type SubscribeOptions,
} from "../src/index.js";
import { Daemon } from "./daemon.js";
import { CALL, RESULT, texts } from "./items.js";

/** For the tests that leave it alone. */
const daemon = new Daemon();

before(() => daemon.begin());

after(() => daemon.close());

/** A test with a daemon of its own, which has taken the line "one". */
function testOfLives(name: string, body: (daemon: Daemon, options: SubscribeOptions) => Promise<void>): void {
  test(name, async () => {
    const daemon = new Daemon();
    try {
      await daemon.begin();
      await daemon.publish("one");
      await body(daemon, { after: "start", path: daemon.path, filter: { kind: ["unparsed"] } });
    } finally {
      await daemon.close();
    }
  });
}

/** What is published now. */
async function published(...lines: string[]): Promise<SubscribeOptions> {
  const stream = await daemon.publish(...lines);
  return { after: "start", follow: false, path: daemon.path, filter: { stream: [stream] } };
}

test("events come in order, and the cursor is behind the last one given", async () => {
  const options = await published("one", "two", "three");
  options.filter = { ...options.filter, kind: ["unparsed"] };
  const stream = subscribe(options);
  assert.equal(stream.cursor, undefined);

  assert.deepEqual(await texts(stream, 2), ["one", "two"]);
  assert.match(stream.cursor ?? "", /^\w+:\d+$/);
  assert.deepEqual(await texts(subscribe({ ...options, after: stream.cursor ?? "" })), ["three"]);
  assert.deepEqual(await texts(stream), ["three"], "iterating again goes on");
});

test("payloads of canonical tools are typed", async () => {
  let command: string | undefined;
  let exitCode: number | undefined;
  for await (const event of subscribe(await published(CALL, RESULT))) {
    if (isCall(event, "Bash")) {
      command = event.input.command;
    } else if (isResult(event, "Bash")) {
      exitCode = event.output.exit_code;
    }
  }

  assert.deepEqual([command, exitCode], ["exit 3", 3]);
});

test("what a user interface shows is typed too", async () => {
  const shown: string[] = [];
  for await (const item of subscribe({ ...(await published(CALL)), as: "display" })) {
    if (!isGap(item) && item.kind === "tool_use") {
      shown.push(`${item.name} ${item.arg}`);
    }
  }

  assert.deepEqual(shown, ["Bash exit 3"]);
});

testOfLives("every event comes once, whichever daemon it was written by", async (daemon, options) => {
  const again = (text: string) => async () => {
    await daemon.kill();
    await daemon.begin();
    await daemon.publish(text);
  };

  assert.deepEqual(await texts(subscribe(options), 3, again("two"), again("three")), ["one", "two", "three"]);
});

testOfLives("a journal that is lost meanwhile is a gap", async (daemon, options) => {
  const lose = async () => {
    await daemon.kill();
    daemon.forgetJournal();
    await daemon.begin();
    await daemon.publish("two");
  };

  assert.deepEqual(await texts(subscribe(options), 3, lose), ["one", "1..0 reset", "two"]);
});

testOfLives("without reconnecting the end of the daemon is an error", async (daemon, options) => {
  const stream = subscribe({ ...options, reconnect: false });

  await assert.rejects(texts(stream, 2, () => daemon.kill()), DisconnectedError);
});

testOfLives("a signal ends a loop that waits, for events or for the daemon", async (daemon, options) => {
  for (const act of [async () => {}, () => daemon.kill()]) {
    const controller = new AbortController();
    const stop = async () => {
      await act();
      controller.abort();
    };
    const stream = subscribe({ ...options, signal: controller.signal });
    await assert.rejects(texts(stream, 2, stop), { name: "AbortError" });
  }
});

test("where nobody listens it says what to do", async () => {
  const path = join(daemon.folder, "none.sock");
  const expected = new ConnectError(`no daemon is listening at ${path}; start one with \`tooltap serve\``);

  await assert.rejects(texts(subscribe({ path })), expected);
  await assert.rejects(request({ op: "ping" }, path), expected);
});

test("where something else listens it says so", async () => {
  const path = join(daemon.folder, "other.sock");
  const server = createServer((socket) => socket.end("220 smtp.example.org ESMTP\r\n"));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  try {
    await assert.rejects(request({ op: "ping" }, path), /what is listening at .* is not a tooltap daemon/);
  } finally {
    server.close();
  }
});

test("requests", async () => {
  await published("one");

  assert.deepEqual(await request({ op: "ping" }, daemon.path), {});
  const { event } = await request({ op: "event", seq: 1 }, daemon.path);
  assert.equal(event.seq, 1);
  const missing = new DaemonError("not-found", "there is no event 9999");
  await assert.rejects(request({ op: "event", seq: 9999 }, daemon.path), missing);
});

test("a refused subscription is an error", async () => {
  const stream = subscribe({ after: "yesterday", path: daemon.path });

  await assert.rejects(texts(stream), { name: "DaemonError", code: "bad-frame" });
});

test("characters and lines survive however the socket cuts them", async () => {
  const said = ["a", "b", "c", "d"].map((letter) => letter + "é😀".repeat(10_000));
  const spoken = said.map((text, index) =>
    JSON.stringify({ type: "assistant", message: { id: `m${index}`, role: "assistant", content: [{ type: "text", text }] } }),
  );
  const options = await published(...spoken);
  options.filter = { ...options.filter, kind: ["message"] };

  assert.deepEqual(await texts(subscribe(options)), said);
});

test("the example prints every shell command", async () => {
  await published(CALL);
  const example = join(import.meta.dirname, "..", "examples", "subscribe.js");
  const environment = { ...process.env, TOOLTAP_SOCKET: daemon.path };
  const child = spawn(process.execPath, [example], { env: environment, stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) {
    assert.equal(line, "claude exit 3");
    break;
  }
  child.kill();
});
