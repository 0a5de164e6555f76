// Real daemons that are killed and come back: `tooltap serve`, which must be on the path.

import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export class Daemon {
  readonly folder = mkdtempSync(join(tmpdir(), "tooltap-"));
  readonly path = join(this.folder, "t.sock");
  /** Where it serves browsers; set by `withWeb`. */
  url: string | undefined;
  private process: ChildProcess | undefined;
  private streams = 0;

  /** From now on it serves browsers too, at the same port in all its lives. */
  async withWeb(): Promise<this> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.close();
    return this;
  }

  /** What the link that it prints ends with. */
  get token(): string {
    return readFileSync(join(this.folder, "tooltap", "web-token"), "utf8").trim();
  }

  async begin(): Promise<void> {
    const journal = `sqlite:${join(this.folder, "journal.db")}`;
    const web = this.url === undefined ? [] : ["--web", new URL(this.url).host];
    this.process = spawn("tooltap", ["serve", "--socket", this.path, "--journal", journal, ...web], {
      env: { ...process.env, XDG_DATA_HOME: this.folder, TOOLTAP_SPOOL: join(this.folder, "spool") },
      stdio: ["ignore", "ignore", "pipe"],
    });
    for await (const line of createInterface({ input: this.process.stderr! })) {
      if (line.includes("listening")) {
        break;
      }
    }
    this.process.stderr!.resume();
  }

  /** The lines, as a stream of its own; gives its name. */
  async publish(...lines: string[]): Promise<string> {
    const socket = connect({ path: this.path, allowHalfOpen: true });
    const stream = `s${++this.streams}`;
    const frame = JSON.stringify({ op: "ingest", stream, dialect: "claude-stream" });
    socket.end([frame, ...lines, ""].join("\n"));
    for await (const line of createInterface({ input: socket })) {
      if (line.startsWith('{"op":"done"')) {
        return stream;
      }
    }
    throw new Error("not taken");
  }

  async kill(): Promise<void> {
    if (this.process && this.process.exitCode === null && this.process.signalCode === null) {
      const ended = once(this.process, "exit");
      this.process.kill("SIGKILL");
      await ended;
    }
  }

  forgetJournal(): void {
    for (const ending of ["", "-wal", "-shm"]) {
      rmSync(join(this.folder, `journal.db${ending}`), { force: true });
    }
  }

  /** As somebody with `sqlite3` does. */
  deleteEvent(seq: number): void {
    const program = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as file: file.execute(sys.argv[2])";
    execFileSync("python3", ["-c", program, join(this.folder, "journal.db"), `DELETE FROM events WHERE seq=${seq}`]);
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true });
  }
}
