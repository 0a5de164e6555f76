// What this browser has shown of each session, and where its page opens, as the reader prefers.

const KEY = "tooltap-seen"; // path of a session's page -> seq up to which its events were on the screen
const MOST = 500; // sessions that are remembered, the latest ones

function stored() {
  try {
    return Object(JSON.parse(localStorage.getItem(KEY)));
  } catch {
    return {};
  }
}

export class Seen {
  // `isWhole`: whether the page shows all events of a session; else nothing is noted.
  constructor(feed, isWhole) {
    this.feed = feed;
    this.isWhole = isWhole;
    this.before = isWhole ? stored()[location.pathname] : undefined;
    this.reached = this.before ?? 0;
  }

  // Returns where the page opens: the seq of an event, or undefined for the end.
  place() {
    if (!this.isWhole || location.search || location.hash) return undefined;
    if (document.body.dataset.opens === "waiting") return Number(document.querySelector("#asks .ask[data-seq]")?.dataset.seq) || undefined;
    if (document.body.dataset.opens !== "unread") return undefined;
    const last = Number(this.feed.element.lastElementChild.dataset.last);
    return (this.before ?? 0) < last ? (this.before ?? 0) + 1 : undefined;
  }

  // Notes what is on the screen, once a frame.
  note() {
    if (!this.isWhole || this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      if (document.visibilityState === "visible") this.reach(this.feed.seen());
    });
  }

  reach(seq) {
    if (seq <= this.reached) return;
    this.reached = seq;
    const { [location.pathname]: known = 0, ...others } = stored();
    const kept = Object.entries(others).slice(1 - MOST);
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries([...kept, [location.pathname, Math.max(known, seq)]])));
  }
}
