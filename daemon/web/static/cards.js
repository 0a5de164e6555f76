// Cards in the browser: turns HTML of our own server into elements, and nests live events in the card of their call,
// by the same rules as the server (daemon/web/page/nesting.py): change both together.

import { childrenOf, restore, unfold } from "./rows.js";

const MAX_DEPTH = 8;
const MAX_PREVIEW = 65_536; // characters of running output and unfinished text
const OPEN = ["pending", "running", "awaiting-permission"];
const SLOTS = ["input", "live", "output", "children", "turn"];
const PLACES = ["cost", "context", "took"]; // facts that come last, in this order
const policy = globalThis.trustedTypes?.createPolicy("tooltap", { createHTML: (html) => html });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const dated = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "full" });
const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const today = new Date().toDateString();

export function parse(html) {
  const holder = document.createElement("template");
  holder.innerHTML = policy ? policy.createHTML(html) : html;
  enhance(holder.content);
  return holder.content;
}

// Adds what the server cannot know: times in the reader's time zone, and that a script can expand cards.
export function enhance(root) {
  restore(root);
  for (const time of root.querySelectorAll("time[data-ts]")) {
    const when = new Date(Number(time.dataset.ts));
    if (Number.isNaN(when.getTime())) continue;
    time.title = date.format(when);
    time.textContent = (when.toDateString() === today ? clock : dated).format(when);
  }
  for (const time of root.querySelectorAll("time[data-day]")) time.textContent = dayOf(new Date(Number(time.dataset.day)));
  for (const time of root.querySelectorAll("time[data-last]")) {
    const when = new Date(Number(time.dataset.last));
    if (Number.isNaN(when.getTime())) continue;
    time.title = date.format(when);
    time.textContent = minutes.format(when);
  }
  if (document.body.dataset.tap !== "expand") return;
  for (const card of root.querySelectorAll("article.card")) {
    setExpanded(card, card.dataset.level === "full");
  }
}

function dayOf(when) {
  const name = { [today]: "Today", [new Date(Date.now() - 86_400_000).toDateString()]: "Yesterday" }[when.toDateString()];
  return name ?? (Number.isNaN(when.getTime()) ? "" : day.format(when));
}

export const headOf = (card) => card.querySelector(":scope > header .head, :scope > details > summary");
export const isExpanded = (card) => headOf(card)?.getAttribute("aria-expanded") === "true";
export const setExpanded = (card, on) => headOf(card)?.setAttribute("aria-expanded", String(on));

// Nests an article in the card it belongs to; returns whether there is one. An event of a subagent looks for its call
// only in `scope`, its own section, because sections are emptied and fetched again. Results and updates, of which a call
// has few, move to their call wherever it is.
export function adopt(article, scope, feed) {
  const { into, intoSession, for: slot } = article.dataset;
  const card = slot === "children" ? (findCard(into, scope) ?? findCard(intoSession, scope, "session-call")) : into && findCard(into, feed);
  if (!card || article.contains(card) || (slot === "children" && depthOf(card) + 1 + heightOf(article) > MAX_DEPTH)) return false;
  const place = slotOf(card, slot);
  const isEnd = article.matches(".tool-result, .turn") && slot !== "children";
  if (article.classList.contains("tool-update")) drop(card, place.querySelector(":scope > .tool-update"));
  if (article.dataset.scope) drop(card, place.querySelector(`:scope > [data-scope="${CSS.escape(article.dataset.scope)}"]`));
  if (article.dataset.replaces) drop(card, place.querySelector(`:scope > [data-event="${CSS.escape(article.dataset.replaces)}"]`));
  if (slot === "input") showPreview(card, article);
  if (slot === "input") place.replaceChildren(article);
  else if (slot === "children") place.insertBefore(article, [...place.children].find((one) => Number(one.dataset.seq) > Number(article.dataset.seq)) ?? null);
  else place.append(article);
  if (isEnd) for (const running of card.querySelectorAll(':scope > [data-slot="live"] > [data-piece]')) running.remove();
  if (slot === "output" || slot === "turn") lift(card, article, slot === "turn");
  if (["input", "output", "turn"].includes(slot) && article.dataset.level === "title") article.querySelector(":scope > header")?.remove();
  setState(card, slot === "turn" ? isEnd && article.dataset.status : statusAfter(article), isEnd);
  if (article.classList.contains("permission-response")) settle(into, card);
  return true;
}

// Takes a card out of a slot, with its facts in the header.
function drop(card, article) {
  if (!article) return;
  for (const fact of card.querySelectorAll(`:scope > header > [data-of="${article.dataset.seq}"]`)) fact.remove();
  article.remove();
}

// Moves the facts of a result, or of what a turn used, into the header of the card, by the rules of `lifted` in cards.py.
function lift(card, article, isNamed) {
  const header = card.querySelector(":scope > header");
  for (const fact of article.querySelectorAll(":scope > header > .fact")) {
    const name = [...fact.classList].find((one) => one !== "fact");
    if (isNamed && !name) continue;
    if (isNamed) header.querySelector(`:scope > .fact.${name}`)?.remove();
    fact.dataset.of = article.dataset.seq;
    const later = [...header.children].find((one) => one.matches(".of, time") || PLACES.slice(PLACES.indexOf(name) + 1).some((place) => one.matches(`.fact.${place}`)));
    header.insertBefore(fact, later ?? null);
  }
}

// Sets the state of a call; `isEnd`: by its result. Nothing else changes the state of a call that has ended.
export function setState(card, status, isEnd) {
  if (isEnd || OPEN.includes(card.dataset.status)) setStatus(card, status);
}

// Returns the cards of a kind that are about a call.
export function parts(into, kind, scope) {
  return scope.querySelectorAll(`article.${kind}[data-into="${CSS.escape(into)}"]`);
}

// Notes that the requests of a call do not wait any more.
export function settle(into, scope) {
  for (const one of parts(into, "permission-request", scope)) if (one.dataset.status === "asked") setStatus(one, "answered");
}

// `name`: which of its keys, `call` or `session-call`.
export function findCard(key, scope, name = "call") {
  return [...scope.querySelectorAll(`article[data-${name}="${CSS.escape(key)}"]`)].at(-1);
}

// Returns the cards in a section that have waited for this one: events of a subagent whose call it is, or which it names.
export function waitingFor(article, section) {
  const { sessionCall, ties, intoSession } = article.dataset;
  if (ties) {
    for (const one of section.querySelectorAll(`article[data-agent="${CSS.escape(ties)}"]`)) {
      Object.assign(one.dataset, { into: intoSession, intoSession, for: "children" });
      delete one.dataset.agent;
    }
  }
  const wanted = ties ? intoSession : sessionCall;
  if (!wanted) return [];
  const named = `article[data-into-session="${CSS.escape(wanted)}"]`;
  for (const run of section.querySelectorAll(`:scope > .run:has(${named})`)) unfold(run);
  return [...section.querySelectorAll(`:scope > ${named}`)];
}

export function slotOf(card, name) {
  const found = card.querySelector(`:scope > [data-slot="${name}"]`);
  if (found) return found;
  if (name === "children") return childrenOf(card);
  const place = document.createElement("div");
  place.dataset.slot = name;
  const later = SLOTS.slice(SLOTS.indexOf(name) + 1).map((one) => `:scope > [data-slot="${one}"]`);
  card.insertBefore(place, later.length ? card.querySelector(later.join()) : null);
  return place;
}

// Appends a partial to the place of its text, as plain text.
export function append(place, { text, offset, end }) {
  const length = Number(place.dataset.length ?? 0);
  if (end <= length) return;
  place.append(offset > length ? `…${text}` : text);
  place.dataset.length = end;
  if (place.textContent.length > MAX_PREVIEW) place.textContent = `…${place.textContent.slice(-MAX_PREVIEW / 2)}`;
}

export function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

// Adds the preview to a call whose input came late.
function showPreview(card, update) {
  const preview = update.querySelector(":scope > header .preview");
  const head = headOf(card);
  if (preview && !head.querySelector(".preview")) head.append(" ", preview.cloneNode(true));
}

function depthOf(card) {
  let depth = 0;
  for (let one = card; one; one = one.parentElement?.closest("article.card")) depth += one.matches('[data-slot="children"] > article');
  return depth;
}

function heightOf(card) {
  const inside = [...card.querySelectorAll(':scope > [data-slot="children"] > article')];
  return Math.max(0, ...inside.map((one) => 1 + heightOf(one)));
}

function statusAfter({ classList, dataset }) {
  if ("async" in dataset) return undefined; // the work continues in the background
  if (classList.contains("permission-response")) return ["allowed", "answered"].includes(dataset.status) && "running";
  return ["tool-result", "tool-update", "permission-request"].some((one) => classList.contains(one)) && dataset.status;
}

function setStatus(card, status) {
  if (!status) return;
  card.dataset.status = status;
  const header = card.querySelector(":scope > header");
  if (!header) return;
  let word = header.querySelector(":scope > .status");
  if (!word) header.insertBefore((word = make("span", "status")), header.querySelector(":scope > :is(.fact, .of, time)"));
  word.textContent = status === "awaiting-permission" ? "waiting for you" : status;
}
