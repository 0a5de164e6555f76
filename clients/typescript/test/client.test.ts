// The client against real daemons.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, mkdirSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";

import {
  ConnectError,
  DaemonError,
  isCall,
  isGap,
  isResult,
  RELEASE,
  request,
  subscribe,
  type SubscribeOptions,
} from "../src/index.js";
import { Daemon } from "./daemon.js";
import { CALL, RESULT, texts } from "./items.js";
import { testLives } from "./lives.js";

/** For the tests that leave it alone. */
const daemon = new Daemon();

before(() => daemon.begin());

after(() => daemon.close());

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

test("nothing is sent to the socket of another user", { skip: process.geteuid?.() !== 0 && "only root can" }, async () => {
  const path = join(daemon.folder, "theirs.sock");
  let received = "";
  const server = createServer((socket) => socket.on("data", (data) => (received += data)).on("error", () => {}));
  await once(server.listen(path), "listening");
  chownSync(path, 65534, 65534);
  const expected = new ConnectError(`what is listening at ${path} belongs to another user`);

  await assert.rejects(texts(subscribe({ path })), expected);
  await assert.rejects(request({ op: "ping" }, path), expected);
  server.close();
  await once(server, "close");
  assert.equal(received, "");
});

test("where nobody listens it says what to do", async () => {
  const path = join(daemon.folder, "none.sock");
  const expected = new ConnectError(`no daemon is listening at ${path}; start one with \`tooltap up\``);

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

test("a daemon of another release learns which one the client speaks", async () => {
  for (const [release, speaks] of [["0.0.9", RELEASE], [RELEASE, undefined]] as const) {
    const path = join(daemon.folder, `release-${release}.sock`);
    const server = createServer((socket) => {
      socket.write(JSON.stringify({ op: "welcome", protocol: 1, daemon: `tooltap/${release}`, journal: "j" }) + "\n");
      socket.once("data", (line) => {
        const { speaks } = JSON.parse(String(line)) as { speaks?: string };
        socket.end(JSON.stringify({ op: "reply", id: 1, ok: true, result: { speaks } }) + "\n");
      });
    });
    await once(server.listen(path), "listening");
    try {
      assert.deepEqual(await request({ op: "ping" }, path), speaks === undefined ? {} : { speaks });
    } finally {
      server.close();
    }
  }
});

test("the loser of an answer hears who was first", async () => {
  const path = join(daemon.folder, "answers.sock");
  const asked: unknown[] = [];
  const server = createServer((socket) => {
    socket.write(JSON.stringify({ op: "welcome", protocol: 1, daemon: `tooltap/${RELEASE}`, journal: "j" }) + "\n");
    socket.once("data", (line) => {
      asked.push(JSON.parse(String(line)));
      const error = { code: "already-answered", message: "bob answered 3 s ago: denied" };
      const reply = asked.length === 1 ? { ok: true, result: { delivered: true } } : { ok: false, error };
      socket.end(JSON.stringify({ op: "reply", id: 1, ...reply }) + "\n");
    });
  });
  await once(server.listen(path), "listening");
  try {
    const { delivered } = await request({ op: "answer", permissionId: "p", outcome: "allowed", remember: true }, path);
    assert.equal(delivered, true);
    const late = request({ op: "answer", permissionId: "p", outcome: "denied" }, path);
    await assert.rejects(late, new DaemonError("already-answered", "bob answered 3 s ago: denied"));
  } finally {
    server.close();
  }
  assert.deepEqual(asked[0], { op: "answer", id: 1, permissionId: "p", outcome: "allowed", remember: true });
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

testLives("by the socket", async () => {}, (daemon, options) => subscribe({ ...options, path: daemon.path }));

/** Runs something in an environment that leads to the record of a daemon, and not to its socket. */
async function filtered<T>(folder: string, run: () => Promise<T>): Promise<T> {
  const before = { ...process.env };
  const runtime = join(folder, "elsewhere");
  mkdirSync(runtime, { recursive: true });
  delete process.env["TOOLTAP_SOCKET"];
  Object.assign(process.env, { XDG_DATA_HOME: folder, XDG_RUNTIME_DIR: runtime });
  try {
    return await run();
  } finally {
    process.env = before;
  }
}

test("a daemon is found by its record where the environment does not lead to it", async () => {
  const options = await published("one");
  delete options.path;

  const found = await filtered(daemon.folder, () => texts(subscribe(options), 1));

  assert.deepEqual(found, ["one"]);
});

test("a record is not believed where another path is named, or its daemon is gone", async () => {
  const gone = new Daemon();
  await gone.begin();
  await gone.kill();
  try {
    await assert.rejects(filtered(gone.folder, () => request({ op: "stats" })), ConnectError);
    const named = { path: join(daemon.folder, "no.sock") };
    await assert.rejects(filtered(daemon.folder, () => request({ op: "stats" }, named)), ConnectError);
  } finally {
    await gone.close();
  }
});

test("a client waits for a daemon that is not there yet, for so long", async () => {
  const late = new Daemon();
  try {
    await assert.rejects(request({ op: "stats" }, { path: late.path, wait: 150 }), ConnectError);
    const asked = request({ op: "stats" }, { path: late.path, wait: 60_000 });
    const [stats] = await Promise.all([asked, late.begin()]);
    assert.equal(stats.socket, late.path);
  } finally {
    await late.close();
  }
});

test("a signal ends the wait", async () => {
  const waiting = new AbortController();
  const asked = request({ op: "stats" }, { path: join(daemon.folder, "no.sock"), wait: 60_000, signal: waiting.signal });
  waiting.abort(new Error("enough"));

  await assert.rejects(asked, /enough/);
});
