// What waits for a person: replies by buttons, forms and keys. A reply counts only on a question that has been on the
// screen, in its place, for `HOLD`: nobody allows by accident what has just appeared, or has just moved under the pointer.

import { parse, whenReleased } from "./cards.js";
import { listen } from "./keys.js";
import { LoggedOut, tell } from "./origin.js";

const HOLD = 500; // milliseconds
const AGO = 10_000; // milliseconds between two updates of how long it has waited
const COVERS = ":popover-open, dialog[open]";
const DONE = { allowed: "Allowed", denied: "Denied", answered: "Answered", cancelled: "Dismissed" };

export class Asks {
  // `container`: the element with the questions, as the server has sent them.
  constructor(container) {
    this.container = container;
    this.held = new Map(); // question -> {place, since, timer}: where its replies are, and since when they are seen there
    this.sources = new WeakMap(); // part of a question -> its HTML as the server has sent it
    this.seen = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => this.hold(target.closest(".ask"), isIntersecting)));
    this.moved = new ResizeObserver(() => this.check());
    this.moved.observe(document.body);
    this.moved.observe(container);
    addEventListener("resize", () => this.check());
    document.addEventListener("visibilitychange", () => this.asks.forEach((ask) => this.hold(ask, !document.hidden)));
    container.addEventListener("click", (event) => this.clicked(event));
    container.addEventListener("input", ({ target }) => choosesOwn(target));
    container.addEventListener("scroll", ({ target }) => target.matches?.(".asked") && showMore(target), true);
    container.addEventListener("submit", (event) => event.preventDefault());
    listen({ a: (event) => this.press("a", event), d: (event) => this.press("d", event) }, () => false);
    setInterval(() => tellAgo(container), AGO);
    this.begin([...container.children]);
  }

  get asks() {
    return [...this.container.querySelectorAll(":scope > .ask")];
  }

  begin(elements) {
    for (const ask of elements) {
      for (const part of partsOf(ask)) this.sources.set(part, part.outerHTML);
      if (ask.matches(".ask")) this.watch(ask);
    }
    tellAgo(this.container);
    this.note();
  }

  // Shows the questions as they are now. What is being typed or confirmed stays, unless the replies have changed.
  show(html) {
    const fresh = parse(html);
    whenReleased(this.container, () => this.replace([...fresh.children]));
  }

  replace(fresh) {
    const known = new Map(this.asks.map((ask) => [ask.dataset.key, ask]));
    const shown = fresh.map((one) => {
      const old = known.get(one.dataset.key);
      if (!old) return this.begin([one]), one;
      this.update(old, one);
      return old;
    });
    for (const one of [...this.container.children]) if (!shown.includes(one)) one.remove();
    shown.forEach((one, at) => this.container.children[at] !== one && this.container.insertBefore(one, this.container.children[at] ?? null));
    for (const ask of this.held.keys()) if (!ask.isConnected) this.forget(ask);
    for (const ask of this.asks) if (!this.held.has(ask)) this.watch(ask);
    tellAgo(this.container);
    this.note();
  }

  update(ask, fresh) {
    const parts = new Map(partsOf(fresh).map((part) => [part.dataset.part, part]));
    for (const old of partsOf(ask)) {
      const part = parts.get(old.dataset.part);
      if (!part || this.sources.get(old) === part.outerHTML) continue;
      this.sources.set(part, part.outerHTML);
      old.replaceWith(part);
      if (part.matches(".replies")) this.watch(ask);
    }
    ask.toggleAttribute("data-open", fresh.hasAttribute("data-open"));
    if (!ask.hasAttribute("data-open")) say(ask, "");
  }

  // -- what has just appeared -------------------------------------------------------------------------------------

  watch(ask) {
    this.forget(ask);
    this.held.set(ask, {});
    this.seen.observe(ask.querySelector(".replies"));
  }

  forget(ask) {
    clearTimeout(this.held.get(ask)?.timer);
    this.held.delete(ask);
    ask.removeAttribute("data-ready");
    const replies = ask.querySelector(".replies");
    if (replies) this.seen.unobserve(replies);
  }

  // Begins to wait until a question counts as seen; if it is not on the screen, it does not.
  hold(ask, isSeen = true) {
    const held = this.held.get(ask);
    if (!held) return;
    clearTimeout(held.timer);
    ask.removeAttribute("data-ready");
    held.since = Infinity;
    if (!isSeen || document.hidden) return;
    held.since = performance.now();
    held.place = placeOf(ask);
    held.timer = setTimeout(() => this.check(ask) && ask.setAttribute("data-ready", ""), HOLD);
  }

  // Returns whether a question is where it was; if it has moved, it must be seen there first.
  check(only) {
    let isThere = true;
    for (const [ask, held] of this.held) {
      if (held.place === undefined || held.since === Infinity || (only && ask !== only)) continue;
      if (held.place === placeOf(ask)) continue;
      this.hold(ask);
      isThere = false;
    }
    return isThere;
  }

  isReady(ask, event) {
    const isThere = this.check(ask);
    const { since = Infinity } = this.held.get(ask) ?? {};
    if (isThere && event.timeStamp - since >= HOLD) return true;
    say(ask, "This has just appeared here. Look at it, then choose again.");
    return false;
  }

  // -- replies ------------------------------------------------------------------------------------------------------

  clicked(event) {
    const button = event.target.closest("button");
    const ask = button?.closest(".ask");
    if (!ask || button.disabled) return;
    if (!this.isReady(ask, event)) return;
    if (button.dataset.opens !== undefined) this.open(ask, button.dataset.opens);
    else if ("back" in button.dataset) this.open(ask, undefined);
    else if (button.dataset.outcome) this.reply(ask, button);
  }

  // Keys act on the first question, if it is on the screen and nothing covers it.
  press(key, event) {
    if (event.repeat || document.querySelector(COVERS)) return;
    const [ask] = this.asks;
    const button = ask?.querySelector(`[data-main]:not([hidden]) button[data-key="${key}"]:not(:disabled)`);
    if (button && isUncovered(button) && this.isReady(ask, event)) this.reply(ask, button);
  }

  // Opens what must be read or written before a reply, or the buttons again.
  open(ask, name) {
    ask.querySelector("[data-main]").hidden = name !== undefined;
    for (const panel of ask.querySelectorAll(".panel")) panel.hidden = panel.dataset.panel !== name;
    say(ask, "");
    this.hold(ask);
    ask.querySelector(name === undefined ? "[data-main] button" : `.panel:not([hidden]) :is(textarea, [data-back])`).focus({ preventScroll: true });
  }

  async reply(ask, { dataset }) {
    const { permission, stream } = ask.dataset;
    const values = { permissionId: JSON.parse(permission), stream: JSON.parse(stream), outcome: dataset.outcome };
    if (dataset.option !== undefined) values.optionId = JSON.parse(dataset.option);
    if ("lasting" in dataset) values.remember = true;
    if ("withMessage" in dataset) values.message = ask.querySelector("[data-message]").value.trim() || undefined;
    if (dataset.outcome === "answered") {
      values.answers = answersIn(ask);
      if (!values.answers) return;
    }
    lock(ask, true);
    say(ask, "…");
    try {
      const { delivered } = await tell("/api/answer", values);
      say(ask, `${DONE[dataset.outcome]}. ${delivered ? "The agent has it." : "The agent gets it as soon as it is connected again."}`);
    } catch (error) {
      if (error instanceof LoggedOut) return location.reload();
      const isSettled = error.code === "already-answered" || error.code === "not-found";
      lock(ask, isSettled);
      say(ask, error.code ? sentence(error.message) : "The daemon cannot be reached. Try again: the first answer counts.");
    }
  }

  note() {
    for (const box of this.container.querySelectorAll(".asked")) showMore(box);
    this.check();
  }
}

// Shows whether there is more of what is asked below what the box shows.
function showMore(box) {
  box.toggleAttribute("data-more", box.scrollHeight - box.clientHeight - box.scrollTop > 4);
}

const partsOf = (ask) => [...ask.querySelectorAll(":scope > [data-part]")];

// Returns where the replies to a question are: on the page, or on the screen if they stay there when the page scrolls.
function placeOf(ask) {
  const { left, top, width, height } = ask.querySelector(".replies").getBoundingClientRect();
  return [left, ask.closest(".dock") ? top : top + scrollY, width, height].map(Math.round).join();
}

// Returns whether a button is on the screen, and nothing is over it.
function isUncovered(button) {
  const { left, top, width, height } = button.getBoundingClientRect();
  return button.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}

function say(ask, words) {
  ask.querySelector(".said").textContent = words;
}

function lock(ask, isLocked) {
  ask.toggleAttribute("data-sent", isLocked);
  for (const button of ask.querySelectorAll(".replies button")) button.disabled = isLocked;
}

const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;

// Chooses "something else" when something is written there.
function choosesOwn(target) {
  if (!target.matches("[data-words]") || !target.value) return;
  const own = target.closest("fieldset").querySelector("[data-own]");
  if (own) own.checked = true;
}

// Returns the answers of a form by their keys, or undefined if one is missing, which then has the focus.
function answersIn(ask) {
  const answers = [];
  for (const field of ask.querySelectorAll("[data-field]")) {
    const answer = answerIn(field);
    if (answer !== undefined) answers.push([JSON.parse(field.dataset.field), answer]);
    else if (field.matches("[data-required]")) {
      say(ask, "An answer is missing.");
      field.querySelector("input, textarea").focus();
      return undefined;
    }
  }
  return Object.fromEntries(answers);
}

function answerIn(field) {
  const { kind } = field.dataset;
  const typed = field.querySelector("[data-words]")?.value.trim() ?? "";
  const chosen = [...field.querySelectorAll("input:checked")].map((one) => ("own" in one.dataset ? typed : JSON.parse(one.value))).filter((one) => one !== "");
  if (kind === "several") return chosen.length ? chosen : undefined;
  if (field.querySelector("[type=radio]")) return chosen[0];
  if (typed === "") return undefined;
  return kind === "number" || kind === "integer" ? Number(typed) : typed;
}

// Says how long ago something was.
function tellAgo(root) {
  for (const time of root.querySelectorAll("time[data-ago]")) {
    const text = lasted(Date.now() - Number(time.dataset.ago));
    if (time.textContent !== text) time.textContent = text;
    time.title ||= new Date(Number(time.dataset.ago)).toLocaleString();
  }
}

function lasted(milliseconds) {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 120) return `${minutes} min ago`;
  return minutes < 2_880 ? `${Math.floor(minutes / 60)} h ago` : `${Math.floor(minutes / 1_440)} days ago`;
}
