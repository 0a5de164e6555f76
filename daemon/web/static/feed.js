// The timeline as sections of cards: older and newer ones are fetched when they come near, far ones are emptied to a
// placeholder of their height and fetched again, so that what the browser holds is bounded, however long it is.

import { adopt, make, parse } from "./cards.js";

const NEAR = 1_500; // pixels from what is seen, within which there are cards
const SECTION = 50; // cards of a section that grows: what is laid out at once stays small
const HELD = 200; // cards in one, those in other cards included
const FILLED = 6; // sections that hold their cards
const MAX_ALSO = 200;

export class Feed {
  // `main`: the timeline; `caughtUp`: called with the seq up to which everything is shown, when nothing newer is left.
  constructor(main, caughtUp) {
    this.main = main;
    this.element = main.querySelector("#feed");
    this.links = { older: main.querySelector("#older"), newer: main.querySelector("#newer") };
    this.caughtUp = caughtUp;
    this.isNewest = main.dataset.newest === "true";
    this.renewals = 0;
    const { first, last } = this.element.firstElementChild.dataset;
    this.links.older.dataset.cursor = first;
    this.links.newer.dataset.cursor = last;
    this.near = new IntersectionObserver((entries) => entries.forEach((one) => one.isIntersecting && this.come(one.target)), {
      rootMargin: `${NEAR}px`,
    });
    for (const link of Object.values(this.links)) {
      this.near.observe(link);
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

  // The next page in one direction.
  async more(way) {
    const link = this.links[way];
    if (link.hidden || this.busy) return;
    const { renewals } = this;
    this.busy = true;
    this.element.setAttribute("aria-busy", "true");
    try {
      const section = await this.fetch({ [way === "older" ? "before" : "after"]: link.dataset.cursor });
      if (renewals !== this.renewals) return;
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
    } catch (error) {
      console.warn(error);
      await new Promise((resolve) => setTimeout(resolve, 2_000));
    } finally {
      this.busy = false;
      this.element.setAttribute("aria-busy", "false");
    }
    for (const one of Object.values(this.links)) {
      this.near.unobserve(one); // being observed anew tells whether it is still near
      this.near.observe(one);
    }
  }

  insert(section, way) {
    this.holding(() => {
      if (way === "older") this.element.prepend(section);
      else this.element.append(section);
      this.settle(section);
    });
    this.trim();
  }

  // What stands in a card stands nowhere else; and what belongs into a card is put there.
  settle(section) {
    for (const article of section.querySelectorAll("article")) {
      const twin = [...this.element.querySelectorAll(`#${article.id}`)].find((one) => one !== article);
      if (twin) (twin.parentElement.matches("section") ? twin : article).remove();
    }
    for (const article of this.element.querySelectorAll("section > article[data-into]")) this.adopt(article);
  }

  adopt(article) {
    if (!adopt(article, article.closest("section"), this.element)) return false;
    const { first, last, also = "" } = article.closest("section").dataset;
    const seq = Number(article.dataset.seq);
    if (seq < Number(first) || seq > Number(last)) {
      article.closest("section").dataset.also = [...also.split(" ").filter(Boolean), seq].slice(-MAX_ALSO).join(" ");
    }
    return true;
  }

  // A card that has just come. Says whether it stands for itself.
  add(article) {
    if (document.getElementById(article.id)) return false;
    const seq = Number(article.dataset.seq);
    const section = this.open(seq);
    section.append(article); // before it is adopted: a subagent's event looks for its call in its own section
    const stays = !this.adopt(article);
    this.element.setAttribute("role", "feed"); // which has to have an article
    this.element.setAttribute("aria-label", "Events");
    this.reach(seq);
    return stays;
  }

  // The section that grows.
  open(seq) {
    const last = this.element.lastElementChild;
    if (last && last.childElementCount < SECTION && !last.hasAttribute("data-empty") && held(last) < HELD) return last;
    const section = make("section", "cards");
    section.dataset.first = last ? Number(last.dataset.last) + 1 : seq;
    section.dataset.last = section.dataset.first;
    this.element.append(section);
    return section;
  }

  // Everything up to here is shown.
  reach(seq) {
    const last = this.element.lastElementChild;
    if (last && seq > Number(last.dataset.last)) last.dataset.last = seq;
  }

  // The newest page in place of everything.
  async renew() {
    const section = await this.fetch({});
    this.renewals += 1;
    this.element.replaceChildren(section);
    this.links.older.dataset.cursor = section.dataset.first;
    this.links.older.hidden = section.dataset.older !== "true";
    this.links.newer.hidden = true;
    this.isNewest = true;
    this.caughtUp(Number(section.dataset.last));
  }

  // What comes is not shown any more; it is on the newer pages.
  leave() {
    this.isNewest = false;
    this.links.newer.dataset.cursor = this.element.lastElementChild.dataset.last;
    this.links.newer.hidden = false;
  }

  // The sections farthest from what is seen are emptied.
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
      this.near.observe(section);
    }
  }

  async fill(section) {
    this.near.unobserve(section);
    const { first, last, also = "" } = section.dataset;
    try {
      const fresh = await this.fetch({ first, last, also: also.split(" ").filter(Boolean) });
      if (!section.isConnected) return;
      section.replaceChildren(...fresh.children);
      section.removeAttribute("data-empty");
      section.style.blockSize = "";
      if (Number(fresh.dataset.last) < Number(last)) this.split(section, Number(fresh.dataset.last), last);
      this.settle(section);
      this.trim();
    } catch (error) {
      console.warn(error);
      setTimeout(() => this.near.observe(section), 2_000);
    }
  }

  // What more has come into a section than a page has, follows in one of its own.
  split(section, end, last) {
    const rest = make("section", "cards");
    Object.assign(rest.dataset, { first: end + 1, last, empty: "" });
    section.dataset.last = end;
    section.after(rest);
    this.near.observe(rest);
  }

  async fetch(values) {
    const address = new URL(this.main.dataset.cards, location.href);
    for (const [name, value] of Object.entries(values)) {
      for (const one of [value].flat()) address.searchParams.append(name, one);
    }
    return parse(await get(address)).querySelector("section");
  }

  // The first card that ends below this height. Only of one section: what is far is not even laid out.
  firstBelow(height) {
    const isBelow = (one) => one.getBoundingClientRect().bottom > height;
    return [...(this.sections.find(isBelow)?.children ?? [])].find(isBelow);
  }

  // Whatever changes above, what is seen stays where it is.
  holding(change) {
    const anchor = this.firstBelow(0);
    const before = anchor?.getBoundingClientRect().top;
    const root = document.documentElement;
    root.style.overflowAnchor = "none"; // done here, also at the very top, where the browser does not
    change();
    if (anchor?.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - before);
    requestAnimationFrame(() => (root.style.overflowAnchor = ""));
  }
}

const held = (section) => section.querySelectorAll("article").length;

export async function get(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${response.status} for ${address}`);
  return response.text();
}
