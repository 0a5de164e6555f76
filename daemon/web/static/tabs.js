// The tabs of a session: beside the conversation they are loaded when they are opened, and on their own pages they are
// there already. While one is looked at it asks every two seconds whether there is something new.

import { make, parse, released } from "./cards.js";
import { copyClicked, offerCopies } from "./copies.js";
import { ask, LoggedOut } from "./origin.js";

const PERIOD = 2_000; // milliseconds between two questions while the session continues
const REST = 15_000; // the same when it has ended: it may be resumed
const MOST_OPEN = 20; // files whose diff is shown
const CHOSEN = "tooltap.tab";

export function tabs() {
  const list = document.querySelector("[data-tabs]");
  if (list) new Tabs(list);
  const main = document.querySelector("main[data-tab]");
  if (main) new Panel(main, main.dataset.tab, { form: "wide" }).show();
}

// Makes tabs of a list of links.
class Tabs {
  constructor(list) {
    this.links = [...list.querySelectorAll("a[data-tab]")];
    this.panels = new Map(this.links.map((link) => [link, this.enhance(link)]));
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", list.closest("[aria-label]")?.getAttribute("aria-label") ?? "");
    this.wider = list.parentElement.querySelector(".wider");
    list.parentElement.after(...[...this.panels.values()].map((panel) => panel.element));
    list.addEventListener("keydown", (event) => this.step(event));
    const name = localStorage.getItem(CHOSEN);
    this.choose(this.links.find((link) => link.dataset.tab === name) ?? this.links[0]);
  }

  enhance(link) {
    const element = make("div", "tab-panel");
    element.id = `panel-${link.dataset.tab}`;
    element.tabIndex = 0;
    element.setAttribute("role", "tabpanel");
    element.setAttribute("aria-labelledby", link.id);
    link.setAttribute("role", "tab");
    link.setAttribute("aria-controls", element.id);
    link.addEventListener("click", (event) => {
      if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      localStorage.setItem(CHOSEN, link.dataset.tab);
      this.choose(link);
    });
    const count = link.querySelector(".count");
    return new Panel(element, link.href, { counted: (number) => count && (count.textContent = Number(number) ? Number(number).toLocaleString("en") : "") });
  }

  choose(chosen) {
    this.wider.href = chosen.href;
    for (const [link, panel] of this.panels) {
      link.setAttribute("aria-selected", String(link === chosen));
      link.tabIndex = link === chosen ? 0 : -1;
      if (link === chosen) panel.show();
      else panel.hide();
    }
  }

  step(event) {
    const at = this.links.indexOf(document.activeElement);
    const end = this.links.length - 1;
    const to = { ArrowRight: at === end ? 0 : at + 1, ArrowLeft: at === 0 ? end : at - 1, Home: 0, End: end }[event.key];
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (to === undefined && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    const link = this.links[to ?? at];
    link.focus();
    link.click();
  }
}

// What one tab shows. `counted`: called with the number that belongs to the tab's name.
class Panel {
  constructor(element, address, { form = "1", counted = () => {} } = {}) {
    Object.assign(this, { element, address, form, counted, isNear: false, html: "", asked: performance.now(), latest: [] });
    this.observer = new IntersectionObserver((entries) => {
      this.isNear = entries.at(-1).isIntersecting;
      if (this.isNear && !this.part) this.refresh();
    });
    this.observer.observe(element);
    element.addEventListener("toggle", (event) => this.toggled(event.target), true);
    element.addEventListener("click", (event) => this.clicked(event));
    offerCopies(element);
  }

  get part() {
    return this.element.querySelector(":scope > .tab");
  }

  // A reader who selects text or looks at another window is not disturbed.
  get isDue() {
    if (!this.isNear || document.hidden || this.isAsking) return false;
    const selection = getSelection();
    if (!selection.isCollapsed && this.element.contains(selection.anchorNode)) return false;
    return performance.now() - this.asked >= (this.part && !("going" in this.part.dataset) ? REST : PERIOD);
  }

  show() {
    this.element.hidden = false;
    if (!this.element.childElementCount) this.element.append(make("p", "none", "Loading …"));
    this.timer ??= setInterval(() => this.isDue && this.refresh(), 250);
  }

  hide() {
    this.element.hidden = true;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  // `isKnown`: what is shown will do if nothing has changed.
  async refresh({ isKnown = Boolean(this.part) } = {}) {
    const address = new URL(this.address, location.href);
    address.searchParams.set("fragment", this.form);
    if (isKnown) address.searchParams.set("known", this.part.dataset.version);
    for (const path of this.open) address.searchParams.append("open", path);
    this.asked = performance.now();
    this.isAsking = true;
    try {
      const response = await ask(address);
      const html = await response.text();
      await released(this.element);
      if (response.status !== 204) this.replace(html);
    } catch (error) {
      if (error instanceof LoggedOut) return location.reload();
      console.warn(error);
      if (!this.part) this.element.replaceChildren(make("p", "none", "This cannot be loaded at the moment; trying again …"));
    } finally {
      this.isAsking = false;
    }
    if (this.isWanted) {
      this.isWanted = false;
      await this.refresh({ isKnown: false });
    }
  }

  // The paths of the files whose diff is open, the one that was opened last first.
  get open() {
    const open = [...this.element.querySelectorAll("details[data-path][open]")].map((one) => one.dataset.path);
    return [...new Set([...this.latest.filter((path) => open.includes(path)), ...open])].slice(0, MOST_OPEN);
  }

  // Replaces what is shown. What has the focus, what is scrolled and what is unfolded stays so.
  replace(html) {
    if (html === this.html) return;
    this.html = html;
    const focused = this.element.contains(document.activeElement) ? keyOf(document.activeElement) : undefined;
    const places = new Map([...this.element.querySelectorAll("[data-keep]")].map((one) => [one.dataset.keep, [one.scrollLeft, one.scrollTop]]));
    const unfolded = new Set([...this.element.querySelectorAll("details.names[open] > summary")].map((one) => one.firstChild.textContent));
    this.element.replaceChildren(parse(html));
    for (const one of this.element.querySelectorAll("[data-keep]")) {
      const [left, top] = places.get(one.dataset.keep) ?? [0, 0];
      one.scrollTo({ left, top, behavior: "instant" });
    }
    for (const one of this.element.querySelectorAll("details.names > summary")) {
      if (unfolded.has(one.firstChild.textContent)) one.parentElement.open = true;
    }
    if (focused) [...this.element.querySelectorAll("summary, a[href], button")].find((one) => keyOf(one) === focused)?.focus({ preventScroll: true });
    offerCopies(this.element);
    if (this.part.dataset.count !== undefined) this.counted(this.part.dataset.count);
  }

  toggled(details) {
    if (!details.open || !details.matches("details[data-path]") || details.querySelector(".changes")) return;
    this.latest = [details.dataset.path, ...this.latest].slice(0, MOST_OPEN);
    if (this.isAsking) this.isWanted = true;
    else this.refresh({ isKnown: false });
  }

  clicked(event) {
    copyClicked(event);
    const link = event.target.closest("a[data-event]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const card = document.getElementById(`e${link.dataset.event}`);
    if (!card?.checkVisibility()) return; // the link leads to the page that has it
    event.preventDefault();
    this.element.closest("[popover]:popover-open")?.hidePopover(); // on small screens it covers the card
    history.replaceState(history.state, "", `#${card.id}`);
    for (const one of document.querySelectorAll(".card.marked")) one.classList.remove("marked");
    card.classList.add("marked");
    card.scrollIntoView({ block: "center" });
    card.querySelector(":scope > header .head")?.focus({ preventScroll: true });
  }
}

const keyOf = (element) => element.closest("details[data-path]")?.dataset.path ?? element.getAttribute("href") ?? element.dataset.line ?? element.textContent;
