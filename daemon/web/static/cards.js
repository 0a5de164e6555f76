// Cards in the browser: turns HTML of our own server into elements, and nests live events in the card of their call,
// by the same rules as the server (daemon/web/page/nesting.py): change both together.

const MAX_DEPTH = 8;
const MAX_PREVIEW = 65_536; // characters of running output and unfinished text
const SLOTS = ["input", "live", "output", "children"];
const policy = globalThis.trustedTypes?.createPolicy("tooltap", { createHTML: (html) => html });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const today = new Date().toDateString();

export function parse(html) {
  const holder = document.createElement("template");
  holder.innerHTML = policy ? policy.createHTML(html) : html;
  enhance(holder.content);
  return holder.content;
}

// Adds what the server cannot know: times in the reader's time zone, and that a script can expand cards.
export function enhance(root) {
  for (const time of root.querySelectorAll("time[data-ts]")) {
    const when = new Date(Number(time.dataset.ts));
    if (Number.isNaN(when.getTime())) continue;
    time.title = date.format(when);
    time.textContent = (when.toDateString() === today ? clock : date).format(when);
  }
  if (document.body.dataset.tap !== "expand") return;
  for (const card of root.querySelectorAll("article.card")) {
    setExpanded(card, card.dataset.level === "full");
  }
}

export const headOf = (card) => card.querySelector(":scope > header .head");
export const isExpanded = (card) => headOf(card)?.getAttribute("aria-expanded") === "true";
export const setExpanded = (card, on) => headOf(card)?.setAttribute("aria-expanded", String(on));

// Nests an article in the card it belongs to; returns whether there is one. An event of a subagent looks for its call
// only in `scope`, its own section, because sections are emptied and fetched again. Results and updates, of which a call
// has few, move to their call wherever it is.
export function adopt(article, scope, feed) {
  const { into, for: slot } = article.dataset;
  const card = into && (findCard(into, scope) ?? (slot === "children" ? undefined : findCard(into, feed)));
  if (!card || article.contains(card) || depthOf(card) > MAX_DEPTH) return false;
  const place = slotOf(card, slot);
  const isResult = article.classList.contains("tool-result");
  if (article.classList.contains("tool-update")) place.querySelector(":scope > .tool-update")?.remove();
  if (article.dataset.replaces) {
    place.querySelector(`:scope > [data-event="${CSS.escape(article.dataset.replaces)}"]`)?.remove();
  }
  if (slot === "input") showPreview(card, article);
  if (slot === "input") place.replaceChildren(article);
  else place.append(article);
  if (isResult) for (const running of card.querySelectorAll(':scope > [data-slot="live"] > [data-piece]')) running.remove();
  if (isResult || !card.querySelector(':scope > [data-slot="output"] > .tool-result')) setStatus(card, statusAfter(article));
  return true;
}

export function findCard(key, scope) {
  return [...scope.querySelectorAll(`article[data-call="${CSS.escape(key)}"]`)].at(-1);
}

export function slotOf(card, name) {
  const found = card.querySelector(`:scope > [data-slot="${name}"]`);
  if (found) return found;
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
  for (let one = card; one; one = one.parentElement?.closest("article.card")) depth += one.dataset.for === "children";
  return depth;
}

function statusAfter({ classList, dataset }) {
  if (classList.contains("permission-response")) return ["allowed", "answered"].includes(dataset.status) && "running";
  return ["tool-result", "tool-update", "permission-request"].some((one) => classList.contains(one)) && dataset.status;
}

function setStatus(card, status) {
  if (!status) return;
  card.dataset.status = status;
  const header = card.querySelector(":scope > header");
  let word = header.querySelector(".status");
  if (!word) header.insertBefore((word = make("span", "status")), header.querySelector("time"));
  word.textContent = status;
}
