// AG-UI's own client against a real daemon: it verifies the order of what comes, and puts the messages together.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";

import { HttpAgent, type AgentSubscriber, type BaseEvent, type RunAgentInput } from "@ag-ui/client";

import { sessions, stats } from "../src/web.js";
import { Daemon } from "./daemon.js";
import { CALL } from "./items.js";

const daemon = new Daemon();

before(async () => (await daemon.withWeb()).begin());

after(() => daemon.close());

/** Reads a session that others drive, and answers what its agent asks. */
class Watching extends HttpAgent {
  protected override requestInit(input: RunAgentInput): RequestInit {
    if (input.resume) {
      return super.requestInit(input);
    }
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

const ASKED = {
  toolCall: { toolCallId: "c1", title: "rm -r build", kind: "execute", rawInput: { command: "rm -r build" } },
  options: [{ optionId: "yes", name: "Allow", kind: "allow_once" }],
  sessionId: "asked",
};
const UPDATE = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "Removed." } };

/** Publishes an ACP agent that asks once, passes on what it gets, and then ends its turn. Returns what it got. */
async function ask(): Promise<unknown> {
  const socket = connect({ path: daemon.path });
  const tap = (dir: "in" | "out", line: string) => socket.write(JSON.stringify({ dir, line }) + "\n");
  const say = (dir: "in" | "out", line: object) => tap(dir, JSON.stringify({ jsonrpc: "2.0", ...line }));
  const frame = { op: "ingest", stream: "asked", framing: "tapped", dialect: "acp", toAgent: true };
  socket.write(JSON.stringify(frame) + "\n");
  say("in", { id: 1, method: "session/new", params: { cwd: "/w" } });
  say("out", { id: 1, result: { sessionId: "asked" } });
  const prompt = [{ type: "text", text: "Clean up." }];
  say("in", { id: 2, method: "session/prompt", params: { sessionId: "asked", prompt } });
  say("out", { id: 101, method: "session/request_permission", params: ASKED });
  for await (const line of createInterface({ input: socket })) {
    const frame = JSON.parse(line);
    if (frame.op === "to-agent") {
      tap("in", frame.payload.line);
      socket.write(JSON.stringify({ op: "to-agent", id: frame.id }) + "\n");
      say("out", { method: "session/update", params: { sessionId: "asked", update: UPDATE } });
      say("out", { id: 2, result: { stopReason: "end_turn" } });
      socket.end();
      return JSON.parse(frame.payload.line).result;
    }
  }
  throw new Error("not told");
}

/** Waits until the daemon has the session. */
async function has(session: string): Promise<void> {
  const gateway = { url: daemon.url!, token: daemon.token };
  while (!(await sessions(gateway)).sessions.some((one) => one.session === session)) {}
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

test("what the agent asks is an interrupt, and resuming answers it", async () => {
  const told = ask();
  await has("asked");
  const agent = watching("asked");
  await run(agent, (event) => event.type === "RUN_FINISHED");
  const [interrupt] = agent.pendingInterrupts;

  assert.equal(interrupt!.message, "rm -r build");
  await agent.runAgent({ resume: [{ interruptId: interrupt!.id, status: "resolved", payload: { outcome: "allowed" } }] });

  assert.deepEqual(await told, { outcome: { outcome: "selected", optionId: "yes" } });
  assert.deepEqual(agent.pendingInterrupts, []);
  assert.equal(agent.messages.at(-1)?.content, "Removed.");
});
