// A connection to the daemon's Unix socket, after the daemon's greeting: lines in, frames out.

import { statSync } from "node:fs";
import { connect, type Socket } from "node:net";

import { ConnectError, DaemonError, DisconnectedError } from "./errors.js";
import { PROTOCOL_VERSION, RELEASE, type ClientFrame, type DaemonFrame, type Welcome } from "./schema.js";

export class Connection {
  /** The id of the daemon's journal. */
  journal = "";
  /** The keys of a frame that tell a daemon of another release which one this client speaks. */
  private spoken: { speaks?: string } = {};

  private constructor(
    private readonly socket: Socket,
    private readonly lines: AsyncGenerator<string>,
  ) {}

  /** Throws `ConnectError` and `DaemonError`, or the signal's reason. */
  static async open(path: string, signal?: AbortSignal): Promise<Connection> {
    signal?.throwIfAborted();
    const socket = await connected(path);
    const abort = () => socket.destroy();
    signal?.addEventListener("abort", abort);
    socket.once("close", () => signal?.removeEventListener("abort", abort));
    const connection = new Connection(socket, linesOf(socket));
    try {
      const welcome = greet(path, await connection.line());
      connection.journal = welcome.journal;
      connection.spoken = welcome.daemon === `tooltap/${RELEASE}` ? {} : { speaks: RELEASE };
      return connection;
    } catch (error) {
      connection.close();
      signal?.throwIfAborted();
      throw error instanceof DisconnectedError ? noDaemon(path) : error;
    }
  }

  send(frame: ClientFrame): void {
    this.socket.write(JSON.stringify({ ...frame, ...this.spoken }) + "\n");
  }

  /** The next line, without its newline. Throws `DisconnectedError`. */
  async line(): Promise<string> {
    const next = await this.lines.next();
    if (next.done) {
      throw new DisconnectedError();
    }
    return next.value;
  }

  close(): void {
    this.socket.destroy();
  }
}

function connected(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once("connect", () => {
      const owner = statSync(path, { throwIfNoEntry: false })?.uid;
      if (owner === us()) {
        resolve(socket);
      } else {
        socket.destroy();
        const stranger = new ConnectError(`what is listening at ${path} belongs to another user`);
        reject(owner === undefined ? noDaemon(path) : stranger);
      }
    });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      const nobody = ["ENOENT", "ECONNREFUSED", "ENOTDIR"].includes(error.code ?? "");
      const why = nobody
        ? `no daemon is listening at ${path}; start one with \`tooltap up\``
        : `cannot connect to ${path}: ${error.message}`;
      reject(new ConnectError(why));
    });
  });
}

/** Who must own the socket: Node cannot say which user listens, but where a daemon serves, nobody else can exchange the
 * file. On Windows, files belong to 0. */
export function us(): number {
  return process.geteuid?.() ?? 0;
}

/** Whole lines, without a last line that is incomplete. */
async function* linesOf(socket: Socket): AsyncGenerator<string> {
  let begun: string[] = [];
  socket.setEncoding("utf8");
  try {
    for await (const chunk of socket as AsyncIterable<string>) {
      const [rest = "", ...following] = chunk.split("\n");
      begun.push(rest);
      if (following.length > 0) {
        yield begun.join("");
        begun = [following.pop() ?? ""];
        yield* following;
      }
    }
  } catch {
    // a broken connection counts as its end
  }
}

/** The daemon's greeting. */
function greet(path: string, line: string): Welcome {
  const frame = parsed(line);
  if (frame?.op === "error") {
    throw new DaemonError(frame.code, frame.message);
  }
  if (frame?.op !== "welcome") {
    throw noDaemon(path);
  }
  if (frame.protocol !== PROTOCOL_VERSION) {
    throw new ConnectError(
      `the daemon at ${path} speaks protocol ${frame.protocol}, this client ${PROTOCOL_VERSION}; ` +
        "use the same version of both",
    );
  }
  return frame;
}

function parsed(line: string): DaemonFrame | undefined {
  try {
    return JSON.parse(line) as DaemonFrame;
  } catch {
    return undefined;
  }
}

function noDaemon(path: string): ConnectError {
  return new ConnectError(`what is listening at ${path} is not a tooltap daemon`);
}
