// The connection to the daemon: server-sent events. After a loss it resumes after the last event.
// EventSource gives up when a daemon that is starting refuses the connection, so this class reconnects by itself.

import { LoggedOut, admitted } from "./origin.js";

const STATES = { live: "Live", reconnecting: "Reconnecting …", away: "The daemon is away; trying again …" };
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
  }

  async connect(after) {
    this.close();
    this.after = after;
    const turn = (this.turn = Symbol("turn"));
    const address = new URL(this.address, location.href);
    address.searchParams.set("after", after);
    for (const key of this.held()) address.searchParams.append("has", key);
    try {
      const admission = await admitted(address);
      if (turn === this.turn) this.open(admission);
    } catch (error) {
      if (turn !== this.turn) return;
      if (error instanceof LoggedOut) this.report("out");
      else this.retry();
    }
  }

  open(address) {
    const source = (this.source = new EventSource(address));
    source.addEventListener("open", () => {
      this.attempts = 0;
      this.report("live");
    });
    source.addEventListener("error", () => this.retry());
    for (const [name, handle] of Object.entries(this.handlers)) {
      source.addEventListener(name, ({ data, lastEventId }) => {
        if (source !== this.source) return;
        if (lastEventId) this.after = lastEventId;
        handle(data, Number(lastEventId || NaN));
      });
    }
  }

  close() {
    clearTimeout(this.timer);
    this.turn = undefined;
    this.source?.close();
    this.source = undefined;
  }

  retry() {
    this.close();
    this.report(this.attempts < 2 ? "reconnecting" : "away");
    const wait = PATIENCE[Math.min(this.attempts++, PATIENCE.length - 1)];
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
