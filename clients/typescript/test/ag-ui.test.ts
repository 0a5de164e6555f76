// AG-UI's own client against a real daemon: it verifies the order of what comes, and puts the messages together.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";

import { HttpAgent, type AgentSubscriber, type BaseEvent } from "@ag-ui/client";

import { stats } from "../src/web.js";
import { Daemon } from "./daemon.js";
import { CALL } from "./items.js";

const daemon = new Daemon();

before(async () => (await daemon.withWeb()).begin());

after(() => daemon.close());

/** Reads a session that others drive. */
class Watching extends HttpAgent {
  protected override requestInit(): RequestInit {
    return { method: "GET", headers: this.headers, signal: this.abortController.signal };
  }
}

/** A stream that goes on: Claude Code, which answers with partials. */
class Agent {
  private readonly socket: Socket;

  constructor(private readonly session: string) {
    this.socket = connect({ path: daemon.path });
    this.socket.write(JSON.stringify({ op: "ingest", stream: session, dialect: "claude-stream" }) + "\n");
  }

  async begin(): Promise<void> {
    this.say({ type: "system", subtype: "init", model: "claude-opus-5-5", cwd: "/w", tools: ["Bash"] });
    this.say({ type: "user", message: { role: "user", content: [{ type: "text", text: "Go." }] } });
    for await (const line of createInterface({ input: this.socket })) {
      if (line.includes('"op":"ack"')) {
        return;
      }
    }
  }

  say(line: object): void {
    this.socket.write(JSON.stringify({ ...line, session_id: this.session }) + "\n");
  }

  write(event: object): void {
    this.say({ type: "stream_event", event });
  }

  delta(text: string): void {
    this.write({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
  }

  async end(): Promise<void> {
    this.socket.destroy();
    await once(this.socket, "close");
  }
}

function watching(session: string): Watching {
  return new Watching({ url: `${daemon.url}/api/ag-ui/${session}`, headers: { Authorization: `Bearer ${daemon.token}` } });
}

/** Runs the client until `isLast`, and gives the types of events that it got. Whatever it does not accept is thrown. */
async function run(agent: Watching, isLast: (event: BaseEvent) => boolean, more: AgentSubscriber = {}): Promise<string[]> {
  const kinds: string[] = [];
  let isOver = false;
  await agent.runAgent({}, {
    ...more,
    onEvent: ({ event }) => {
      if (isOver) {
        return; // the client's own, of the end of the connection
      }
      kinds.push(event.type);
      if (isLast(event)) {
        isOver = true;
        agent.abortRun();
      }
    },
  });
  return kinds;
}

/** Waits until the daemon sends what comes, partials too, and no longer what was. */
async function isLive(): Promise<void> {
  const gateway = { url: daemon.url!, token: daemon.token };
  let subscribers: { behind: boolean }[];
  do {
    ({ subscribers } = (await stats(gateway)) as { subscribers: { behind: boolean }[] });
  } while (subscribers.some((one) => one.behind));
}

test("a text arrives while it is written, and is the message in the end", async () => {
  const author = new Agent("written");
  await author.begin();
  const agent = watching("written");
  const seen: string[] = [];

  await run(agent, (event) => event.type === "RUN_FINISHED", {
    onRunStartedEvent: async () => {
      await isLive();
      author.write({ type: "message_start", message: { id: "m1", role: "assistant", content: [] } });
      author.write({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
      author.delta("Hel");
    },
    onTextMessageContentEvent: ({ event }) => {
      seen.push(event.delta);
      if (event.delta === "Hel") {
        author.delta("lo.");
        author.say({ type: "assistant", message: { id: "m1", role: "assistant", content: [{ type: "text", text: "Hello." }] } });
        author.say({ type: "result", subtype: "success", is_error: false, result: "Hello." });
      }
    },
  });
  await author.end();

  assert.deepEqual(seen, ["Go.", "Hel", "lo."]);
  assert.deepEqual(agent.messages.map((one) => [one.role, one.content]), [["user", "Go."], ["assistant", "Hello."]]);
});

test("a client that comes late gets all that was, with its calls", async () => {
  await daemon.publish(CALL);
  const agent = watching("one");

  const kinds = await run(agent, (event) => event.type === "TOOL_CALL_RESULT");

  assert.equal(kinds[0], "RUN_STARTED");
  const [called] = agent.messages.flatMap((one) => (one.role === "assistant" ? one.toolCalls ?? [] : []));
  assert.deepEqual(JSON.parse(called!.function.arguments), { command: "exit 3" });
});
