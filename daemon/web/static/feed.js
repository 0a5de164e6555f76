// The timeline as sections of cards. Older and newer sections are fetched when the reader comes near; far sections are
// emptied to placeholders of their height and fetched again later, and the farthest are removed. So the browser holds a
// bounded number of cards, and what it does for a new one does not grow with what was seen.

import { findCard, isExpanded, make, parse, partsOf, patch, released, reload } from "./cards.js";
import { ask } from "./origin.js";
import { remember } from "./rows.js";

const NEAR = 1_500; // pixels around the visible part, within which sections are filled
const SECTION = 50; // most cards of the growing section: the browser lays out a section at once
const HELD = 200; // most cards in a section, nested ones included
const FILLED = 6; // most sections that are not emptied
const MOST = 40; // most sections, with the emptied ones: beyond that, the other end is left, and paged to again
const MAX_ALSO = 200;

export class Feed {
  // `main`: the timeline; `caughtUp`: called with the seq up to which everything is shown, when nothing newer is left.
  constructor(main, caughtUp) {
    this.main = main;
    this.element = main.querySelector("#feed");
    this.links = { older: main.querySelector("#older"), newer: main.querySelector("#newer") };
    this.caughtUp = caughtUp;
    remember(this.element);
    this.isNewest = main.dataset.newest === "true";
    this.renewals = 0;
    const { first, last } = this.element.firstElementChild.dataset;
    this.links.older.dataset.cursor = first;
    this.links.newer.dataset.cursor = last;
    this.watched = new IntersectionObserver((entries) => entries.forEach((one) => one.isIntersecting && this.come(one.target)), {
      rootMargin: `${NEAR}px`,
    });
    for (const link of Object.values(this.links)) {
      this.watched.observe(link);
      link.addEventListener("click", (event) => {
        event.preventDefault();
        this.come(link);
      });
    }
  }

  get sections() {
    return [...this.element.children];
  }

  come(target) {
    if (target === this.links.older) this.more("older");
    else if (target === this.links.newer) this.more("newer");
    else this.fill(target);
  }

  // Fetches the next page in one direction.
  async more(way) {
    const link = this.links[way];
    if (link.hidden || this.busy) return;
    const { renewals } = this;
    this.busy = true;
    this.element.setAttribute("aria-busy", "true");
    try {
      const section = await this.fetch({ [way === "older" ? "before" : "after"]: link.dataset.cursor });
      if (renewals === this.renewals) this.extend(section, way);
    } catch (error) {
      console.warn(error);
      await new Promise((resolve) => setTimeout(resolve, 2_000));
    } finally {
      this.busy = false;
      this.element.setAttribute("aria-busy", "false");
    }
    for (const one of Object.values(this.links)) {
      this.watched.unobserve(one); // observing it again reports whether it is still near
      this.watched.observe(one);
    }
  }

  // Adds a page at one end.
  extend(section, way) {
    const link = this.links[way];
    link.dataset.cursor = way === "older" ? section.dataset.first : section.dataset.last;
    link.hidden = section.dataset[way] !== "true";
    if (section.childElementCount) this.insert(section, way);
    else if (way === "older") link.textContent = `Older events, before ${Number(section.dataset.first).toLocaleString()}`;
    const isEmpty = !this.element.querySelector("article");
    this.main.querySelector("#empty").hidden = !isEmpty || !this.links.older.hidden || !this.links.newer.hidden;
    if (way === "newer" && link.hidden) {
      this.isNewest = true;
      this.caughtUp(Number(section.dataset.last));
    }
  }

  insert(section, way) {
    this.dedupe(section);
    this.holding(() => {
      if (way === "older") this.element.prepend(section);
      else this.element.append(section);
      this.settle();
    });
    this.trim();
  }

  // Removes duplicates of nested cards, before the section is in the document.
  dedupe(section) {
    for (const article of section.querySelectorAll("article.card")) {
      const twin = document.getElementById(article.id);
      if (twin) (twin.parentElement.matches("section") ? twin : article).remove();
    }
  }

  // Has the cards made again that say something of a call in another section: with it, in its card.
  settle() {
    const alone = [...this.element.querySelectorAll('section > article[data-into]:not([data-for="children"], [data-for="turn"])')];
    for (const article of alone) {
      const card = findCard(article.dataset.into, this.element);
      if (!card) continue;
      article.remove();
      this.join(card, [article]);
      reload(card, isExpanded(card), [...partsOf(card), article]).catch(() => card.append(article));
    }
  }

  // Notes the events in a card that are not in the range of its section, to fetch them again with it. The server finds
  // what a turn used.
  join(card, inside) {
    const section = card.closest("section");
    if (!section || card.matches(".turn")) return;
    const { first, last, also = "" } = section.dataset;
    const outside = inside.map((one) => Number(one.dataset.seq)).filter((seq) => seq < Number(first) || seq > Number(last));
    section.dataset.also = [...new Set([...also.split(" ").filter(Boolean), ...outside.map(String)])].slice(-MAX_ALSO).join(" ");
  }

  // Adds a live card and what its event changes. Returns whether it is a row of its own.
  add(article, patches) {
    if (document.getElementById(article.id)) return false;
    const seq = Number(article.dataset.seq);
    const section = this.open(seq);
    section.append(article);
    if (patches.some((one) => one.dataset.patch === "none")) article.remove();
    const isRow = article.isConnected;
    patch(patches, this);
    this.element.setAttribute("role", "feed"); // the role requires an article
    this.element.setAttribute("aria-label", "Events");
    this.reach(seq);
    return isRow && article.parentElement === section;
  }

  // Returns the growing section, or opens a new one.
  open(seq) {
    const last = this.element.lastElementChild;
    if (last && last.childElementCount < SECTION && !last.hasAttribute("data-empty") && held(last) < HELD) return last;
    const section = make("section", "cards");
    section.dataset.first = last ? Number(last.dataset.last) + 1 : seq;
    section.dataset.last = section.dataset.first;
    this.element.append(section);
    return section;
  }

  // Notes that all events up to this one are shown.
  reach(seq) {
    const last = this.element.lastElementChild;
    if (last && seq > Number(last.dataset.last)) last.dataset.last = seq;
  }

  // Replaces everything by the newest page.
  async renew() {
    const section = await this.fetch({});
    await released(this.element);
    this.renewals += 1;
    this.element.replaceChildren(section);
    this.links.older.dataset.cursor = section.dataset.first;
    this.links.older.hidden = section.dataset.older !== "true";
    this.links.newer.hidden = true;
    this.isNewest = true;
    this.caughtUp(Number(section.dataset.last));
  }

  // Shows an event, or the next one that is here; fetches the page around it if it is not. Returns its card.
  async show(seq) {
    if (!document.getElementById(`e${seq}`)) {
      const section = this.sections.find(({ dataset }) => Number(dataset.first) <= seq && seq <= Number(dataset.last));
      if (!section) await this.around(seq);
      else if (section.hasAttribute("data-empty")) await this.fill(section);
    }
    const card = this.near(seq);
    for (let one = card?.parentElement?.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
    card?.scrollIntoView({ block: "start" });
    return card;
  }

  // Returns the card of an event, or of the next one, as far as it is here.
  near(seq) {
    const card = document.getElementById(`e${seq}`);
    if (card?.checkVisibility() || card?.closest("details")) return card;
    const section = this.sections.find(({ dataset }) => seq <= Number(dataset.last)) ?? this.sections.at(-1);
    const cards = [...(section?.querySelectorAll("article.card") ?? [])].filter((one) => one.checkVisibility());
    return cards.find((one) => Number(one.dataset.seq) >= seq) ?? cards.at(-1);
  }

  // Replaces everything by the page around an event.
  async around(seq) {
    const section = await this.fetch({ at: seq });
    this.renewals += 1;
    this.element.replaceChildren(section);
    for (const way of ["older", "newer"]) {
      this.links[way].hidden = section.dataset[way] !== "true";
      this.links[way].dataset.cursor = way === "older" ? section.dataset.first : section.dataset.last;
      this.watched.unobserve(this.links[way]);
      this.watched.observe(this.links[way]);
    }
    this.isNewest = this.links.newer.hidden;
    if (this.isNewest) this.caughtUp(Number(section.dataset.last));
  }

  // Stops showing live events; newer pages will have them.
  leave() {
    this.isNewest = false;
    this.links.newer.dataset.cursor = this.element.lastElementChild.dataset.last;
    this.links.newer.hidden = false;
  }

  // Empties the sections farthest from the visible part.
  trim() {
    const middle = innerHeight / 2;
    const filled = this.sections.filter((one) => !one.hasAttribute("data-empty"));
    const far = filled
      .filter((one) => !one.contains(document.activeElement))
      .map((section) => ({ section, box: section.getBoundingClientRect() }))
      .map(({ section, box }) => ({ section, box, distance: Math.max(box.top - middle, middle - box.bottom) }))
      .filter(({ distance }) => distance > 2 * NEAR + middle)
      .sort((one, other) => other.distance - one.distance);
    for (const { section, box } of far.slice(0, Math.max(filled.length - FILLED, 0))) {
      section.style.blockSize = `${box.height}px`;
      section.toggleAttribute("data-empty", true);
      section.replaceChildren();
      this.watched.observe(section);
    }
    this.shorten();
  }

  // Removes sections at the end that is farther from the visible part. Links lead to their events, as to any others.
  shorten() {
    const { sections } = this;
    if (sections.length <= MOST) return;
    const box = this.element.getBoundingClientRect();
    const gone = sections.length - MOST;
    if (box.bottom - innerHeight > -box.top) {
      for (const one of sections.slice(-gone)) this.forget(one);
      this.leave();
    } else {
      this.holding(() => sections.slice(0, gone).forEach((one) => this.forget(one)));
      this.links.older.dataset.cursor = this.element.firstElementChild.dataset.first;
      this.links.older.hidden = false;
    }
  }

  forget(section) {
    this.watched.unobserve(section);
    section.remove();
  }

  async fill(section) {
    this.watched.unobserve(section);
    const { first, last, also = "" } = section.dataset;
    try {
      const fresh = await this.fetch({ first, last, also: also.split(" ").filter(Boolean) });
      if (!section.isConnected) return;
      this.dedupe(fresh);
      section.replaceChildren(...fresh.children);
      section.removeAttribute("data-empty");
      section.style.blockSize = "";
      if (Number(fresh.dataset.last) < Number(last)) this.split(section, Number(fresh.dataset.last), last);
      this.settle();
      this.trim();
    } catch (error) {
      console.warn(error);
      setTimeout(() => this.watched.observe(section), 2_000);
    }
  }

  // Puts the rest of a section that has grown longer than a page into a section of its own.
  split(section, end, last) {
    const rest = make("section", "cards");
    Object.assign(rest.dataset, { first: end + 1, last, empty: "" });
    section.dataset.last = end;
    section.after(rest);
    this.watched.observe(rest);
  }

  async fetch(values) {
    const address = new URL(this.main.dataset.cards, location.href);
    for (const [name, value] of Object.entries(values)) {
      for (const one of [value].flat()) address.searchParams.append(name, one);
    }
    return parse(await get(address)).querySelector("section");
  }

  // Returns the first card that ends below this height. It looks into one section only: far ones are not laid out.
  firstBelow(height) {
    const isBelow = (one) => one.getBoundingClientRect().bottom > height;
    return [...(this.sections.find(isBelow)?.children ?? [])].find(isBelow);
  }

  // Returns the seq up to which events have been on the screen, if the reader has read to here.
  seen() {
    const below = this.firstBelow(innerHeight);
    if (!below) return Number(this.element.lastElementChild.dataset.last);
    const before = below.previousElementSibling ?? below.parentElement.previousElementSibling?.lastElementChild;
    return Number(before?.dataset.seq ?? below.parentElement.dataset.first) - (before ? 0 : 1);
  }

  // Keeps the visible part in place while something above it changes.
  holding(change) {
    const anchor = this.firstBelow(0);
    const before = anchor?.getBoundingClientRect().top;
    const root = document.documentElement;
    root.style.overflowAnchor = "none"; // browsers do it as well, but not at the very top
    change();
    if (anchor?.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - before);
    requestAnimationFrame(() => (root.style.overflowAnchor = ""));
  }
}

const held = (section) => section.querySelectorAll("article").length;

export async function get(address) {
  return (await ask(address)).text();
}
