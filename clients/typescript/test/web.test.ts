// The client for browsers against real daemons, in Node, which has the same `fetch`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text as textOf } from "node:stream/consumers";
import { after, before, test } from "node:test";

import {
  ConnectError,
  DaemonError,
  answer,
  event,
  interrupt,
  isCall,
  isGap,
  send,
  sessions,
  stats,
  subscribe,
  type SubscribeOptions,
  waiting,
} from "../src/web.js";
import { Daemon } from "./daemon.js";
import { CALL, texts } from "./items.js";
import { testLives } from "./lives.js";

/** For the tests that leave it alone. */
const daemon = new Daemon();

before(async () => (await daemon.withWeb()).begin());

after(() => daemon.close());

function optionsOf(daemon: Daemon, options: SubscribeOptions): SubscribeOptions {
  return { after: "start", url: daemon.url!, token: daemon.token, ...options };
}

/** What is published now. */
async function published(...lines: string[]): Promise<SubscribeOptions> {
  return optionsOf(daemon, { filter: { stream: [await daemon.publish(...lines)] } });
}

test("events come in order, typed, and the cursor is behind the last one given", async () => {
  const options = await published(CALL);
  for await (const item of subscribe(options)) {
    if (!isGap(item) && isCall(item, "Bash")) {
      assert.equal(item.input.command, "exit 3");
      break;
    }
  }

  const three = await published("one", "two", "three");
  three.filter = { ...three.filter, kind: ["unparsed"] };
  const stream = subscribe(three);
  assert.deepEqual(await texts(stream, 2), ["one", "two"]);
  assert.match(stream.cursor ?? "", /^\w+:\d+$/);
  assert.deepEqual(await texts(subscribe({ ...three, after: stream.cursor! }), 1), ["three"]);
});

test("what a user interface shows is typed too", async () => {
  for await (const item of subscribe({ ...(await published(CALL)), as: "display" })) {
    if (!isGap(item) && item.kind === "tool_use") {
      assert.equal(item.arg, "exit 3");
      break;
    }
  }
});

test("characters and lines survive however they are cut", async () => {
  const said = ["a", "b", "c", "d"].map((letter) => letter + "é😀".repeat(10_000));
  const spoken = said.map((text, index) =>
    JSON.stringify({ type: "assistant", message: { id: `m${index}`, role: "assistant", content: [{ type: "text", text }] } }),
  );
  const options = await published(...spoken);
  options.filter = { ...options.filter, kind: ["message"] };

  assert.deepEqual(await texts(subscribe(options), 4), said);
});

test("sessions, an event, statistics", async () => {
  await published(CALL);
  const gateway = { url: daemon.url!, token: daemon.token };

  const { sessions: found } = await sessions(gateway, { limit: 1 });
  assert.deepEqual(found.map((one) => one.session), ["one"]);
  assert.equal((await event(gateway, 1)).event["seq"], 1);
  assert.equal((await event(gateway, 1, "display")).view, "display");
  assert.equal(typeof (await stats(gateway))["pid"], "number");
  await assert.rejects(event(gateway, 9999), new DaemonError("not-found", "there is no event 9999"));
});

test("what the daemon refuses is an error", async () => {
  const { token, ...options } = await published("one");

  await assert.rejects(texts(subscribe(options)), { name: "DaemonError", code: "forbidden" });
  await assert.rejects(texts(subscribe({ ...options, token: `${token}x` })), { code: "forbidden" });
  await assert.rejects(texts(subscribe({ ...options, token: token!, after: "yesterday" })), { name: "DaemonError" });
});

test("where no daemon answers it says what to do", async () => {
  const other = createServer((_, response) => response.writeHead(404).end("nothing here"));
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;

  await assert.rejects(sessions({ url }), new ConnectError(`what answers at ${url} is not a tooltap daemon`));
  await new Promise((resolve) => other.close(resolve));
  const nobody = new ConnectError(`no daemon answers at ${url}; start one with \`tooltap serve --web\``);
  await assert.rejects(sessions({ url }), nobody);
  await assert.rejects(texts(subscribe({ url })), nobody);
});

test("answers, prompts and interrupts are posted, and the loser hears who was first", async () => {
  const posted: unknown[] = [];
  const other = createServer(async (request, response) => {
    const body = JSON.parse(await textOf(request)) as { permissionId?: string };
    posted.push([request.method, request.url, request.headers.authorization, request.headers["content-type"], body]);
    const isFirst = body.permissionId !== "late";
    const refusal = { error: { code: "already-answered", message: "bob answered 3 s ago: denied" } };
    response.writeHead(isFirst ? 200 : 409).end(JSON.stringify(isFirst ? { delivered: true } : refusal));
  });
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const gateway = { url: `http://127.0.0.1:${(other.address() as AddressInfo).port}`, token: "t" };

  const { delivered } = await answer(gateway, { permissionId: "p", outcome: "denied", message: "no" });
  assert.equal(delivered, true);
  assert.equal((await send(gateway, { session: "s", text: "go on" })).delivered, true);
  assert.equal((await interrupt(gateway, { session: "s" })).delivered, true);
  await assert.rejects(
    answer(gateway, { permissionId: "late", outcome: "allowed" }),
    new DaemonError("already-answered", "bob answered 3 s ago: denied"),
  );
  other.close();

  const head = (path: string) => ["POST", path, "Bearer t", "application/json"];
  assert.deepEqual(posted, [
    [...head("/api/answer"), { permissionId: "p", outcome: "denied", message: "no" }],
    [...head("/api/send"), { session: "s", text: "go on" }],
    [...head("/api/interrupt"), { session: "s" }],
    [...head("/api/answer"), { permissionId: "late", outcome: "allowed" }],
  ]);
});

test("what waits", async () => {
  const found = await waiting({ url: daemon.url!, token: daemon.token }, { session: ["a", "b"] });
  assert.deepEqual(found, { waiting: [], complete: true });
});

test("a connection without heartbeats counts as dead, and the next one goes on after the last event", async () => {
  const asked: (string | null)[] = [];
  const silent = createServer((request, response) => {
    asked.push(new URL(request.url!, "http://x").searchParams.get("after"));
    const frames = [
      '{"op":"heartbeat","period":0.05}',
      '{"op":"subscribed","after":0,"journal":"j","oldest":1,"latest":9}',
      `{"seq":${asked.length},"kind":"message","text":"said ${asked.length}"}`,
    ];
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(frames.map((frame) => `data: ${frame}\n\n`).join("")); // and nothing more
  });
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;

  const found: unknown[] = [];
  for await (const item of subscribe({ url, after: "start" })) {
    if (found.push(isGap(item) ? "gap" : item.seq) === 2) {
      break;
    }
  }
  silent.close();
  silent.closeAllConnections();

  assert.deepEqual(found, [1, 2]);
  assert.deepEqual(asked, ["start", "j:1"]);
});

test("the example prints every shell command", async () => {
  await published(CALL);
  const example = join(import.meta.dirname, "..", "examples", "web.js");
  const child = spawn(process.execPath, [example, daemon.url!], {
    env: { ...process.env, TOKEN: daemon.token },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    assert.equal(line, "claude exit 3");
    break;
  }
  child.kill();
});

test("nothing of it is for Node alone", () => {
  const modules = ["web.js"];
  for (const name of modules) {
    const source = readFileSync(join(import.meta.dirname, "..", "src", name), "utf8");
    for (const [, from = ""] of source.matchAll(/from "(.*)"/g)) {
      assert.match(from, /^\.\//);
      if (!modules.includes(from.slice(2))) {
        modules.push(from.slice(2));
      }
    }
  }
  assert.ok(modules.includes("stream.js"));
});

testLives(
  "over HTTP",
  (daemon) => daemon.withWeb(),
  (daemon, options) => subscribe(optionsOf(daemon, options)),
);
