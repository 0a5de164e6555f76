// Where a daemon is: at the usual socket, or where a daemon has recorded itself, and when to look again.
//
// A program that an agent or an editor starts may lack the variables that locate the usual socket. So where none is
// named, and no daemon is at the usual one, the newest daemon of this user that answers is taken.

import { existsSync, lstatSync, readFileSync, readdirSync, statSync, type Stats } from "node:fs";
import { homedir, tmpdir, userInfo } from "node:os";
import { isAbsolute, join } from "node:path";

import { Connection, us } from "./connection.js";
import { ConnectError } from "./errors.js";
import { pauses, sleep } from "./waiting.js";

/** Records that are read, at most: more than anybody runs daemons. */
const MAX_RECORDS = 100;
const MAX_BYTES = 16_384;
/** Milliseconds in which a daemon that has recorded itself must greet. */
const PATIENCE = 2_000;
const OTHERS_WRITE = 0o022;

interface RunningDaemon {
  socket: string;
  /** In ms since the epoch. */
  started: number;
  /** The journal's id, which the daemon's greeting must have, too. */
  journal: string;
}

export interface PlaceOptions {
  /** Path of the socket. Default: that of the user's daemon, wherever it is. */
  path?: string;
  /** Milliseconds to wait for a daemon that is not there yet. Default: 0. */
  wait?: number;
  signal?: AbortSignal;
}

/** `$TOOLTAP_SOCKET`, else `tooltap.sock` in the user's runtime directory. */
export function socketPath(): string {
  if (process.env["TOOLTAP_SOCKET"]) {
    return process.env["TOOLTAP_SOCKET"];
  }
  if (process.platform === "darwin") {
    return join(homedir(), "Library/Caches/TemporaryItems/tooltap.sock");
  }
  const user = process.getuid?.() ?? 0;
  const folders = [process.env["XDG_RUNTIME_DIR"], `/run/user/${user}`];
  const folder = folders.find((path) => path && existsSync(path)) ?? join(tmpdir(), `runtime-${user}`);
  return join(folder, "tooltap.sock");
}

/** Connects to a daemon. Throws `ConnectError` and `DaemonError`, or the signal's reason. */
export async function reach({ path, wait = 0, signal }: PlaceOptions): Promise<Connection> {
  const attempts = pauses(wait);
  for (;;) {
    try {
      return await Connection.open(path ?? socketPath(), signal);
    } catch (error) {
      if (!(error instanceof ConnectError)) {
        throw error;
      }
      const found = path || process.env["TOOLTAP_SOCKET"] ? undefined : await elsewhere(signal);
      if (found) {
        return found;
      }
      const pause = attempts.next();
      if (pause.done) {
        throw error;
      }
      await sleep(pause.value, signal);
    }
  }
}

/** A connection to the newest daemon that has recorded itself and answers. */
async function elsewhere(signal?: AbortSignal): Promise<Connection | undefined> {
  for (const one of recorded()) {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), PATIENCE);
    const either = signal ? AbortSignal.any([signal, limit.signal]) : limit.signal;
    const connection = await Connection.open(one.socket, either).catch(() => undefined);
    clearTimeout(timer);
    signal?.throwIfAborted();
    if (connection?.journal === one.journal) {
      return connection;
    }
    connection?.close();
  }
  return undefined;
}

/** The daemons that have recorded themselves, the newest first. Those of killed ones are there, too. */
function recorded(): RunningDaemon[] {
  const found = folders().flatMap((folder) => records(folder));
  return found.sort((one, other) => other.started - one.started);
}

/** Where running daemons are recorded, and where else they may be: in the home of the system's database of users. */
function folders(): string[] {
  const named = process.env["XDG_DATA_HOME"]?.trim() ?? "";
  const below = process.platform === "darwin" ? "Library/Application Support" : ".local/share";
  const isNamed = process.platform !== "darwin" && isAbsolute(named);
  const data = isNamed ? [named] : [join(homedir(), below), join(userInfo().homedir, below)];
  return [...new Set(data)].map((folder) => join(folder, "tooltap", "daemons"));
}

function records(folder: string): RunningDaemon[] {
  try {
    if (!isOurs(statSync(folder))) {
      return [];
    }
    const names = readdirSync(folder).filter((name) => name.endsWith(".json"));
    return names.sort().slice(-MAX_RECORDS).flatMap((name) => record(join(folder, name)));
  } catch {
    return [];
  }
}

function record(path: string): RunningDaemon[] {
  try {
    const status = lstatSync(path);
    if (!status.isFile() || !isOurs(status) || status.size > MAX_BYTES) {
      return [];
    }
    const { socket, started, journal } = JSON.parse(readFileSync(path, "utf8")) as Partial<RunningDaemon>;
    const isWhole = typeof socket === "string" && typeof started === "number" && typeof journal === "string";
    return isWhole ? [{ socket, started, journal }] : [];
  } catch {
    return []; // its daemon has just ended, or another program has put it there
  }
}

function isOurs(status: Stats): boolean {
  return status.uid === us() && (status.mode & OTHERS_WRITE) === 0;
}
