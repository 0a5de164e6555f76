// The rows of the table of sessions, in parts. Older parts are fetched when the reader comes near; far parts are emptied
// to a space of their height and fetched again later. So the browser holds a bounded number of rows.

import { isPressed, make, parse, whenReleased } from "./cards.js";
import { get } from "./feed.js";

const NEAR = 1_000; // pixels around the visible part, within which parts are filled
const FILLED = 3; // most parts that are not emptied
const PART = 75; // rows of a part that grows, before it is split
const OLDEST = [-1, -1];

export class Rows {
  constructor(main) {
    this.main = main;
    this.table = main.querySelector("table.list");
    this.link = main.querySelector("#older-sessions");
    this.later = new Map(); // session -> its new row, or null: shown when the pointer and the focus have left the table
    this.ended = new AbortController();
    const { signal } = this.ended;
    this.near = new IntersectionObserver((entries) => entries.forEach((one) => one.isIntersecting && this.come(one.target)), {
      rootMargin: `${NEAR}px`,
    });
    this.near.observe(this.link);
    this.link.addEventListener("click", (event) => {
      event.preventDefault();
      this.more();
    }, { signal });
    this.table.addEventListener("pointerleave", () => this.flush(), { signal });
    this.table.addEventListener("focusout", () => setTimeout(() => this.flush()), { signal });
    addEventListener("scroll", () => this.isStale && scrollY <= innerHeight && this.flush(), { passive: true, signal });
    this.group();
  }

  close() {
    this.ended.abort();
    this.near.disconnect();
  }

  get parts() {
    return [...this.table.tBodies];
  }

  come(target) {
    if (target === this.link) this.more();
    else this.fill(target);
  }

  async more() {
    if (this.link.hidden || this.isBusy) return;
    this.isBusy = true;
    try {
      const parts = await this.fetch({ before: this.parts.at(-1).dataset.last });
      this.table.append(...parts);
      this.link.hidden = !parts.at(-1)?.hasAttribute("data-more");
      this.group();
      this.trim();
    } catch (error) {
      console.warn(error);
      await new Promise((resolve) => setTimeout(resolve, 2_000));
    } finally {
      this.isBusy = false;
    }
    this.near.unobserve(this.link); // observing it again reports whether it is still near
    if (!this.ended.signal.aborted) this.near.observe(this.link);
  }

  async fill(part) {
    if (!part.hasAttribute("data-empty")) return;
    this.near.unobserve(part);
    const { before, last } = part.dataset;
    try {
      const [fresh, ...rest] = await this.fetch(before ? { before, last } : { last });
      if (!part.isConnected) return;
      if (fresh) part.replaceChildren(...fresh.rows);
      else part.remove();
      part.removeAttribute("data-empty");
      part.after(...rest);
      if (fresh && rest.length) part.dataset.last = fresh.dataset.last;
      this.group();
      this.trim();
    } catch (error) {
      console.warn(error);
      setTimeout(() => part.isConnected && this.near.observe(part), 2_000);
    }
  }

  // Empties the parts farthest from the visible part.
  trim() {
    const filled = this.parts.filter((one) => !one.hasAttribute("data-empty"));
    const far = filled
      .filter((part) => !part.contains(document.activeElement))
      .map((part) => ({ part, box: part.getBoundingClientRect() }))
      .map(({ part, box }) => ({ part, box, distance: Math.max(box.top - innerHeight, -box.bottom) }))
      .filter(({ distance }) => distance > NEAR)
      .sort((one, other) => other.distance - one.distance);
    for (const { part, box } of far.slice(0, Math.max(filled.length - FILLED, 0))) {
      const cell = make("td");
      const row = make("tr", "space");
      cell.colSpan = 10;
      cell.style.blockSize = `${box.height}px`;
      row.append(cell);
      part.replaceChildren(row);
      part.toggleAttribute("data-empty", true);
      this.near.observe(part);
    }
  }

  // Shows the row of a session as it is now, or removes it. While the pointer or the focus is in the table, no row moves.
  put(row, name = row.dataset.session) {
    if (this.isHeld()) {
      const known = this.find(name);
      if (known && row && !isPressed(known)) change(known, row);
      this.later.set(name, row);
      whenReleased(this.table, () => this.flush());
    } else {
      this.place(name, row);
      this.settle();
    }
  }

  flush() {
    if (this.isHeld()) return;
    if (this.isStale) this.renew();
    if (!this.later.size) return;
    for (const [name, row] of this.later) this.place(name, row);
    this.later.clear();
    this.settle();
  }

  isHeld() {
    return isPressed(this.table) || this.table.contains(document.activeElement) || (matchMedia("(hover: hover)").matches && this.table.matches(":hover"));
  }

  place(name, row) {
    const known = this.find(name);
    if (!row) return known?.remove();
    if (known?.dataset.place === row.dataset.place) return change(known, row);
    this.holding(() => {
      known?.remove();
      this.insert(row);
    });
  }

  // Puts a row at its place, unless that is in a part that is emptied, or was never fetched.
  insert(row) {
    const place = placeOf(row.dataset.place);
    if (!this.table.tBodies.length) this.table.append(make("tbody"));
    const first = this.parts[0].dataset.before;
    if (first && compare(place, placeOf(first)) >= 0) return;
    const part = this.parts.find((one) => compare(place, placeOf(one.dataset.last)) >= 0) ?? (this.link.hidden ? this.parts.at(-1) : undefined);
    if (!part || part.hasAttribute("data-empty")) return;
    const next = sessions(part).find((one) => compare(placeOf(one.dataset.place), place) < 0);
    part.insertBefore(row, next ?? null);
    if (!next && (!part.dataset.last || compare(place, placeOf(part.dataset.last)) < 0)) part.dataset.last = row.dataset.place;
    if (sessions(part).length > PART) split(part);
  }

  settle() {
    this.group();
    this.trim();
    this.isNone(!this.table.querySelector("tr[data-session], tr.space"));
  }

  isNone(isNone) {
    const isEmpty = isNone && !this.table.querySelector("tr[data-session]");
    this.table.hidden = isEmpty;
    this.main.querySelector("#empty").hidden = !isEmpty;
  }

  // Puts a heading before the first row of each day, in the reader's time zone.
  group() {
    let day;
    for (const part of this.parts) {
      if (part.hasAttribute("data-empty")) {
        day = dayOf(part.dataset.last);
        continue;
      }
      for (const row of [...part.rows]) {
        if (!row.dataset.session) {
          const own = row.nextElementSibling?.dataset.session && dayOf(row.nextElementSibling.dataset.place);
          if (!own || own === day) row.remove();
          continue;
        }
        const own = dayOf(row.dataset.place);
        if (own !== day && !row.previousElementSibling?.matches(".day")) part.insertBefore(heading(row), row);
        day = own;
      }
    }
  }

  // Fetches the newest rows: so many have changed.
  async renew() {
    try {
      const parts = await this.fetch({});
      this.isStale = this.isHeld() || scrollY > innerHeight;
      if (this.isStale) return;
      for (const part of this.parts) part.remove();
      this.table.append(...parts);
      this.link.hidden = !parts.at(-1)?.hasAttribute("data-more");
      this.settle();
    } catch (error) {
      console.warn(error);
    }
  }

  // Keeps the visible rows in place while one above them comes or goes.
  holding(change) {
    const anchor = scrollY > 0 ? [...this.table.rows].find((one) => one.dataset.session && one.getBoundingClientRect().top > 0) : undefined;
    const before = anchor?.getBoundingClientRect().top;
    document.documentElement.style.overflowAnchor = "none"; // browsers do it as well, but not everywhere
    change();
    if (anchor?.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - before);
    requestAnimationFrame(() => (document.documentElement.style.overflowAnchor = ""));
  }

  find(name) {
    return this.table.querySelector(`tr[data-session="${CSS.escape(name)}"]`);
  }

  async fetch(values) {
    const address = new URL(this.main.dataset.rows, location.href);
    for (const [name, value] of Object.entries(values)) address.searchParams.set(name, value);
    return [...parse(`<table>${await get(address)}</table>`).querySelectorAll("tbody")];
  }
}

const sessions = (part) => [...part.rows].filter((one) => one.dataset.session);

// Returns `[time, seq]` of a place, which is written as `seq-time`.
function placeOf(text) {
  return text ? text.split("-").map(Number).reverse() : OLDEST;
}

const compare = ([time, seq], [otherTime, otherSeq]) => time - otherTime || seq - otherSeq;

function dayOf(place) {
  const [time] = placeOf(place);
  return time ? new Date(time).toDateString() : "none";
}

function heading(row) {
  const [time] = placeOf(row.dataset.place);
  const made = parse(`<table><tr class="day"><th scope="rowgroup" colspan="10">${time ? `<time data-day="${time}"></time>` : "Without a time"}</th></tr></table>`);
  return made.querySelector("tr");
}

// Replaces the cells of a row that differ, but not the one with the focus. The row stays where it is.
function change(row, fresh) {
  for (const [index, cell] of [...row.cells].entries()) {
    const other = fresh.cells[index];
    if (cell.outerHTML !== other.outerHTML && !cell.contains(document.activeElement)) cell.replaceWith(other.cloneNode(true));
  }
}

function split(part) {
  const rows = sessions(part);
  const rest = make("tbody");
  const middle = rows[Math.floor(rows.length / 2)];
  rest.dataset.before = rows[Math.floor(rows.length / 2) - 1].dataset.place;
  rest.dataset.last = part.dataset.last;
  part.dataset.last = rest.dataset.before;
  rest.append(...rows.slice(rows.indexOf(middle)));
  part.after(rest);
}
