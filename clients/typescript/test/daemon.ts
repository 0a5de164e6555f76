// Real daemons that are killed and come back: `tooltap serve`, which must be on the path.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export class Daemon {
  readonly folder = mkdtempSync(join(tmpdir(), "tooltap-"));
  readonly path = join(this.folder, "t.sock");
  private process: ChildProcess | undefined;
  private streams = 0;

  async begin(): Promise<void> {
    const journal = `sqlite:${join(this.folder, "journal.db")}`;
    this.process = spawn("tooltap", ["serve", "--socket", this.path, "--journal", journal], {
      env: { ...process.env, TOOLTAP_SPOOL: join(this.folder, "spool") },
      stdio: ["ignore", "inherit", "pipe"],
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

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true });
  }
}
