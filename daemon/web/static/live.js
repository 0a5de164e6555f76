// The connection to the daemon: server-sent events, and going on after the last one when it was lost.
// EventSource gives up by itself when a daemon that is starting refuses it, so that we reconnect ourselves.

const PATIENCE = [500, 1_000, 2_000, 4_000, 8_000]; // milliseconds before the next attempt

export class Live {
  // `handlers`: name of a message -> function of its data and its seq (NaN if it has none); `tell`: of the state,
  // which is live, reconnecting or away.
  constructor(address, handlers, tell) {
    this.address = address;
    this.handlers = handlers;
    this.tell = tell;
    this.attempts = 0;
  }

  connect(after) {
    this.close();
    this.after = after;
    const address = new URL(this.address, location.href);
    address.searchParams.set("after", after);
    const source = (this.source = new EventSource(address));
    source.addEventListener("open", () => {
      this.attempts = 0;
      this.tell("live");
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
    this.source?.close();
    this.source = undefined;
  }

  retry() {
    this.close();
    this.tell(this.attempts < 2 ? "reconnecting" : "away");
    const wait = PATIENCE[Math.min(this.attempts++, PATIENCE.length - 1)];
    this.timer = setTimeout(() => this.connect(this.after), wait);
  }
}
