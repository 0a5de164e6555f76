// The connection to the daemon: server-sent events. After a loss it resumes after the last event.
// EventSource gives up when a daemon that is starting refuses the connection, so this class reconnects by itself. It
// does not notice that a connection is dead (sleep, a stuck tunnel), so this class listens for heartbeats.

import { LoggedOut, admitted } from "./origin.js";

const STATES = { live: "Live", reconnecting: "Reconnecting …", away: "The daemon is away; trying again …" };
const SILENT = 3; // periods of heartbeats after which a connection counts as dead
const ASKED = 5_000; // milliseconds for an answer to whether we may connect
const PATIENCE = [500, 1_000, 2_000, 4_000, 8_000]; // milliseconds before the next attempt

export class Live {
  // `handlers`: name of a message -> function of its data and its seq (NaN if it has none); `report`: called with the
  // state, which is live, reconnecting, away, or out if the login has ended; `held`: returns the keys of the unfinished texts that the page shows.
  constructor(address, handlers, report, held) {
    this.address = address;
    this.handlers = handlers;
    this.report = report;
    this.held = held;
    this.attempts = 0;
    this.period = 15_000; // milliseconds between two heartbeats; they say it
    addEventListener("online", () => this.isWanted && this.connect(this.after));
    document.addEventListener("visibilitychange", () => {
      const isLate = Date.now() - this.heard > 1.5 * this.period;
      if (!document.hidden && this.isWanted && isLate) this.connect(this.after);
    });
  }

  async connect(after) {
    this.close();
    this.isWanted = true;
    this.after = after;
    this.hear();
    const turn = (this.turn = Symbol("turn"));
    this.asking = new AbortController();
    const address = new URL(this.address, location.href);
    address.searchParams.set("after", after);
    for (const key of this.held()) address.searchParams.append("has", key);
    try {
      const admission = await admitted(address, AbortSignal.any([this.asking.signal, AbortSignal.timeout(ASKED)]));
      if (turn === this.turn) this.open(admission);
    } catch (error) {
      if (turn !== this.turn) return;
      if (error instanceof LoggedOut) this.report("out");
      else this.retry(error.name === "TimeoutError");
    }
  }

  open(address) {
    const source = (this.source = new EventSource(address));
    source.addEventListener("open", () => {
      this.attempts = 0;
      this.hear();
      this.report("live");
    });
    source.addEventListener("heartbeat", ({ data }) => {
      if (source !== this.source) return;
      this.period = 1_000 * JSON.parse(data).period;
      this.hear();
    });
    source.addEventListener("error", () => this.retry());
    for (const [name, handle] of Object.entries(this.handlers)) {
      source.addEventListener(name, ({ data, lastEventId }) => {
        if (source !== this.source) return;
        this.hear();
        if (lastEventId) this.after = lastEventId;
        handle(data, Number(lastEventId || NaN));
      });
    }
  }

  // Waits for the next sign of life.
  hear() {
    this.heard = Date.now(); // which goes on while the machine sleeps
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.retry(true), SILENT * this.period);
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
    this.isWanted = false;
    this.turn = undefined;
    this.asking?.abort(); // else the browser would ask again by the same connection, which may be dead
    this.source?.close();
    this.source = undefined;
  }

  // `waited`: whether the attempt has taken its time. The browser may hold several dead connections, and tries them all.
  retry(waited = false) {
    this.close();
    this.isWanted = true;
    this.report(this.attempts < 2 ? "reconnecting" : "away");
    const wait = PATIENCE[waited ? 0 : Math.min(this.attempts, PATIENCE.length - 1)];
    this.attempts += 1;
    this.timer = setTimeout(() => this.connect(this.after), wait);
  }
}

// Shows in the top bar how the connection is.
export function showConnection(state) {
  if (state === "out") return location.reload(); // nothing stays on the screen
  const connection = document.querySelector("#connection");
  connection.dataset.state = state;
  connection.textContent = STATES[state];
}
