// The overview of a session: the minimap, whose window is a slider, and the outline of its turns. Both say where the
// reader is, and lead elsewhere. They are fetched again while the session continues.

import { parse, released } from "./cards.js";
import { get } from "./feed.js";
import { LoggedOut } from "./origin.js";

const PERIOD = 2_000; // milliseconds between two requests for a new one
const SETTLED = 120; // milliseconds after which a drag that pauses moves the conversation
const FOLLOWS = 100; // milliseconds after which what follows a scrolling reader is moved: measuring lays the page out
const NARROWEST = 8; // pixels of the window
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dated = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

const seqOf = (link) => Number(link.getAttribute("href").split("#e")[1]);

export class Overview {
  // `goTo`: moves the conversation to an event; `isAtEnd`: returns whether the reader sees the newest events.
  constructor(feed, goTo, isAtEnd) {
    this.feed = feed;
    this.goTo = goTo;
    this.isAtEnd = isAtEnd;
    this.element = document.querySelector("#minimap");
    this.window = document.querySelector("#window");
    this.outline = document.querySelector("#outline");
    this.read();
    this.listen();
    if (this.element.hasAttribute("data-empty")) this.changed();
    this.follow();
  }

  // Reads what the map and the outline have.
  read() {
    const svg = this.element.querySelector("svg");
    const width = svg?.viewBox.baseVal.width ?? 1;
    const start = Number(svg?.dataset.start ?? NaN);
    const stopOf = (link) => {
      const rect = link.firstElementChild;
      return {
        seq: seqOf(link),
        x: Number(rect.getAttribute("x")) / width,
        width: Number(rect.getAttribute("width")) / width,
        when: start + 1_000 * Number(link.dataset.s),
        title: link.querySelector("title").textContent,
        turn: Number(link.dataset.turn),
      };
    };
    const bySeq = (one, other) => one.seq - other.seq;
    this.stops = [...this.element.querySelectorAll("svg g a")].map(stopOf).sort(bySeq);
    this.turns = [...this.element.querySelectorAll("svg a.turn-mark")].map(stopOf).sort(bySeq);
    this.entries = [...this.outline.querySelectorAll("a[data-seq]")];
    this.days = new Set([this.stops[0], this.stops.at(-1)].map((one) => new Date(one?.when).toDateString())).size;
    if (!this.stops.length) this.stops = this.turns;
    this.window.hidden = !this.stops.length;
    this.window.ariaValueMax = String(Math.max(this.stops.length, 1));
  }

  listen() {
    const update = () => (this.following ??= setTimeout(() => {
      this.following = undefined;
      this.follow();
    }, FOLLOWS));
    addEventListener("scroll", update, { passive: true });
    addEventListener("resize", update);
    new ResizeObserver(update).observe(this.feed.element);
    const strip = document.querySelector("#strip");
    new ResizeObserver(() => document.documentElement.style.setProperty("--strip", `${strip.offsetHeight}px`)).observe(strip);
    document.addEventListener("visibilitychange", () => this.wanted && this.changed());
    this.element.addEventListener("keydown", (event) => this.step(event));
    this.element.addEventListener("pointerdown", (event) => this.take(event));
    this.element.addEventListener("pointermove", (event) => this.drag(event));
    this.element.addEventListener("pointerup", (event) => this.drop(event));
    this.element.addEventListener("pointercancel", () => this.release());
    this.element.addEventListener("dragstart", (event) => event.preventDefault());
    this.element.addEventListener("mousedown", (event) => event.preventDefault()); // it would take the focus from the slider
    for (const part of [this.element, this.outline]) part.addEventListener("click", (event) => this.open(event));
  }

  // -- moving -------------------------------------------------------------------------------------------------------

  open(event) {
    const link = event.target.closest("a[href]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (!this.outline.contains(link)) return; // the pointer has moved it already
    if (this.outline.matches(":popover-open")) this.outline.hidePopover();
    this.move(Number(link.dataset.seq));
  }

  take(event) {
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || !this.stops.length) return;
    this.element.setPointerCapture(event.pointerId);
    this.window.focus({ preventScroll: true });
    const link = event.target.closest("svg g a");
    this.held = this.at(event, link && seqOf(link));
  }

  drag(event) {
    if (!this.held) return;
    const stop = this.at(event);
    if (stop === this.held) return;
    this.held = stop;
    this.show(stop, stop.x, stop.x + stop.width);
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.move(stop.seq), SETTLED);
  }

  drop() {
    if (this.held) this.move(this.held.seq);
    this.release();
  }

  release() {
    clearTimeout(this.settling);
    this.held = undefined;
  }

  // Returns the stop under the pointer, or the nearest. `seq`: of the bar that was hit.
  at({ clientX }, seq) {
    const box = this.element.getBoundingClientRect();
    const x = (clientX - box.left) / box.width;
    const away = (one) => Math.max(one.x - x, x - one.x - one.width, 0);
    return this.stops.find((one) => one.seq === seq)
      ?? this.stops.reduce((best, one) => (away(one) < away(best) ? one : best));
  }

  step(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !this.stops.length) return;
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    const turn = { PageUp: -1, PageDown: 1 }[event.key];
    const index = this.stops.indexOf(this.stopOf(this.current()));
    if (by) this.move(this.stops[Math.min(Math.max(index + by, 0), this.stops.length - 1)].seq);
    else if (turn) this.toTurn(turn);
    else if (event.key === "Home") this.move(Math.min(this.stops[0].seq, this.turns[0]?.seq ?? Infinity));
    else if (event.key === "End") this.move(this.stops.at(-1).seq);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Moves to the beginning of the next turn, or to that of the turn before.
  toTurn(by) {
    const entries = this.entries.filter((one) => one.dataset.turn !== undefined);
    const index = entries.indexOf(this.entryOf(this.current()));
    const entry = entries[Math.min(Math.max(index + by, 0), entries.length - 1)];
    if (entry) this.move(Number(entry.dataset.seq));
  }

  // Moves to an event, or to the end (`Infinity`). Of several moves at once the last one counts.
  async move(seq) {
    this.chosen = seq;
    const moves = this.isMoving;
    this.isMoving = true;
    this.follow();
    if (moves) return;
    try {
      for (let done; done !== this.chosen; ) {
        done = this.chosen;
        await this.goTo(done);
      }
    } catch (error) {
      console.warn(error);
    } finally {
      this.isMoving = false;
      if (this.chosen === Infinity) this.chosen = undefined;
    }
    this.follow();
  }

  // -- following ----------------------------------------------------------------------------------------------------

  // Returns the `seq` of the event at which the reader is: the one that was chosen as long as it is visible, else the
  // first that is visible, but at the end of the session the last.
  current() {
    if (this.chosen !== undefined && this.isChosenVisible()) return this.chosen;
    this.chosen = undefined;
    return this.isAtEnd() ? Infinity : this.seqAt(this.top, 1);
  }

  isChosenVisible() {
    if (this.isMoving) return true;
    if (scrollY === 0 && !this.isAtEnd()) return false; // the reader has gone to the beginning
    const card = this.feed.near(this.chosen);
    if (!card) return false;
    const { top, bottom } = card.getBoundingClientRect();
    return bottom > this.top && top < innerHeight;
  }

  get top() {
    return document.querySelector("#strip").getBoundingClientRect().bottom;
  }

  // Returns the `seq` of the first card at this height, or after it in this direction.
  seqAt(height, way) {
    const { left, width } = this.feed.element.getBoundingClientRect();
    for (let y = height + 4 * way; y > 0 && y < innerHeight; y += 16 * way) {
      const card = document.elementFromPoint(left + width / 2, y)?.closest("#feed article.card");
      if (card) return Number(card.dataset.seq);
    }
    return undefined;
  }

  follow() {
    if (this.held) return;
    const seq = this.current();
    const stop = this.stopOf(seq);
    const end = this.isAtEnd() ? 1 : this.placeOf(this.seqAt(innerHeight, -1));
    if (stop) this.show(stop, this.placeOf(this.seqAt(this.top, 1)) ?? stop.x, end ?? stop.x);
    this.mark(seq);
  }

  show(stop, from, to) {
    const { width } = this.element.getBoundingClientRect();
    const size = Math.min(Math.max(to - from, NARROWEST / width), 1);
    this.window.style.insetInlineStart = `${100 * Math.min(from, 1 - size)}%`;
    this.window.style.inlineSize = `${100 * size}%`;
    this.window.ariaValueNow = String(this.stops.indexOf(stop) + 1);
    this.window.ariaValueText = this.words(stop);
  }

  words(stop) {
    const when = Number.isNaN(stop.when) ? "" : (this.days > 1 ? dated : clock).format(stop.when);
    const turn = this.before(this.turns, stop.seq)?.turn;
    return [when, turn && `turn ${turn}`, stop.title].filter(Boolean).join(", ");
  }

  // Marks the turn in view, and keeps its entry visible in the outline.
  mark(seq) {
    const entry = this.entryOf(seq);
    if (entry === this.marked) return;
    this.marked?.removeAttribute("aria-current");
    this.marked = entry;
    if (!entry) return;
    entry.setAttribute("aria-current", "location");
    const [box, own] = [this.outline.getBoundingClientRect(), entry.getBoundingClientRect()];
    if (own.top < box.top) this.outline.scrollTop -= box.top - own.top + 16;
    else if (own.bottom > box.bottom) this.outline.scrollTop += own.bottom - box.bottom + 16;
  }

  stopOf(seq) {
    return this.before(this.stops, seq) ?? this.stops[0];
  }

  placeOf(seq) {
    if (seq === undefined) return undefined;
    const stop = this.before(this.stops, seq);
    if (!stop) return 0;
    return stop.seq === seq ? stop.x : stop.x + stop.width;
  }

  before(stops, seq) {
    return stops.findLast((one) => one.seq <= seq);
  }

  entryOf(seq) {
    const turns = this.entries.filter((one) => one.dataset.turn !== undefined);
    return turns.findLast((one) => Number(one.dataset.seq) <= seq) ?? turns[0];
  }

  // -- what is new --------------------------------------------------------------------------------------------------

  // The session has new events: fetches the overview again, but not often, and not while nobody looks.
  changed() {
    this.wanted = true;
    if (this.timer || this.isFetching || document.hidden) return;
    this.timer = setTimeout(() => this.renew(), Math.max((this.renewed ?? -PERIOD) + PERIOD - performance.now(), 0));
  }

  async renew() {
    this.timer = undefined;
    this.wanted = false;
    this.isFetching = true;
    try {
      const fresh = parse(await get(this.element.dataset.address));
      await Promise.all([released(this.element), released(this.outline)]);
      const focused = document.activeElement.closest?.("#outline a")?.dataset.seq;
      for (const part of ["minimap", "outline"]) {
        document.querySelector(`#${part} [data-part]`).replaceWith(fresh.querySelector(`[data-part="${part}"]`));
      }
      this.element.removeAttribute("data-empty");
      this.read();
      this.marked = undefined;
      if (focused) this.outline.querySelector(`a[data-seq="${focused}"]`)?.focus({ preventScroll: true });
      this.follow();
    } catch (error) {
      if (error instanceof LoggedOut) location.reload();
      else console.warn(error);
    } finally {
      this.isFetching = false;
      this.renewed = performance.now();
      if (this.wanted) this.changed();
    }
  }
}
