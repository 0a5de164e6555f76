// Cards in the browser: turns HTML of our own server into elements, and puts cards that it made again in their places.
// What a card says and where it belongs is the server's decision.

import { offerCopies } from "./copies.js";
import { ask } from "./origin.js";
import { foldRows, nestRows, restore } from "./rows.js";

const MAX_PREVIEW = 65_536; // characters of running output and unfinished text
const SLOTS = ["input", "live", "output", "children", "turn"];
const reloading = new Map(); // id of a card that is being fetched -> {on}: whether expanded
const policy = globalThis.trustedTypes?.createPolicy("tooltap", { createHTML: (html) => html });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const dated = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "full" });
const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const today = new Date().toDateString();

export function parse(html) {
  const holder = document.createElement("template");
  holder.innerHTML = policy ? policy.createHTML(html) : html;
  enhance(holder.content);
  return holder.content;
}

let pressed; // what the pointer is held down on: a click must end where it began
const held = new Map(); // element, or a key of its own -> what puts the new one in its place, until the pointer is released
addEventListener("pointerdown", ({ target }) => (pressed = target), true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(release), true);
addEventListener("blur", release); // of the window: it is released elsewhere

function release() {
  pressed = undefined;
  const waiting = [...held.values()];
  held.clear();
  for (const show of waiting) show();
}

// Shows something new in the place of an element, or within it. While a pointer is held down there, that waits: else the
// click would be lost.
export function whenReleased(element, show) {
  if (isPressed(element)) held.set(element, show);
  else show();
}

export const isPressed = (element) => Boolean(pressed && element.contains(pressed));

// Waits until no pointer is held down on an element.
export const released = (element) => new Promise((done) => (isPressed(element) ? held.set(Symbol("press"), done) : done()));

// Shows new content in the place of the former one. The focus stays on the link or the button that had it.
export function refill(element, fresh) {
  whenReleased(element, () => replaceContent(element, fresh));
}

function replaceContent(element, fresh) {
  const keyOf = (one) => one.href ?? one.dataset.line;
  const focused = element.contains(document.activeElement) ? keyOf(document.activeElement) : undefined;
  element.replaceChildren(fresh);
  offerCopies(element);
  if (focused) [...element.querySelectorAll("a, button[data-line]")].find((one) => keyOf(one) === focused)?.focus({ preventScroll: true });
}

// Adds what the server cannot know: times in the reader's time zone, and that a script can expand cards.
export function enhance(root) {
  restore(root);
  for (const time of root.querySelectorAll("time[data-ts]")) {
    const when = new Date(Number(time.dataset.ts));
    if (Number.isNaN(when.getTime())) continue;
    time.title = date.format(when);
    const isThisYear = when.getFullYear() === new Date().getFullYear();
    time.textContent = (when.toDateString() === today ? clock : isThisYear ? dated : dayOfYear).format(when);
  }
  for (const time of root.querySelectorAll("time[data-day]")) time.textContent = dayOf(new Date(Number(time.dataset.day)));
  for (const time of root.querySelectorAll("time[data-last]")) {
    const when = new Date(Number(time.dataset.last));
    if (Number.isNaN(when.getTime())) continue;
    time.title = date.format(when);
    time.textContent = minutes.format(when);
  }
  if (document.querySelector("#aside[data-session]")) {
    for (const file of root.querySelectorAll(".prose code.file")) Object.assign(file, { tabIndex: 0, role: "link" });
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

// Carries out what the server says an event changes (`patches` in show/skins/html.py), as far as the cards are here. The
// event's own card is in the document already.
export function patch(patches, feed) {
  for (const { dataset, firstElementChild: html } of patches) {
    const card = dataset.at && document.getElementById(dataset.at);
    const rows = dataset.rows?.split(" ").filter(Boolean).map((id) => document.getElementById(id)) ?? [];
    if (dataset.patch === "replace" && card) swap(card, html, dataset.keep.split(" "), feed);
    if (dataset.patch === "children" && card) nestRows(card, rows.filter((row) => row?.closest("section") === card.closest("section")), html);
    if (dataset.patch === "fold") foldRows(rows, html);
  }
}

// Puts a card in the place of the former one, which keeps its children and the text that grows in it. If the reader has
// opened or closed that, it is fetched at its own level.
function swap(card, fresh, kept, feed) {
  const inside = partsOf(fresh);
  for (const part of inside) document.getElementById(part.id)?.remove();
  feed.join(card, inside);
  const on = reloading.get(card.id)?.on ?? isExpanded(card);
  if (headOf(card)?.hasAttribute("aria-expanded") && on !== isExpanded(fresh)) return reload(card, on, inside).catch(() => replace(card, fresh, kept));
  reloading.delete(card.id);
  replace(card, fresh, kept);
}

// Fetches a card at another level, with the events in it; its subagent's cards stay as they are.
export async function reload(card, on, inside = partsOf(card)) {
  const address = new URL(`/cards/${card.dataset.seq}`, location.href);
  address.searchParams.set("level", on ? "expanded" : "collapsed");
  for (const part of inside) address.searchParams.append("also", part.dataset.seq);
  const turn = { on };
  reloading.set(card.id, turn);
  const fresh = parse(await (await ask(address)).text()).querySelector("article");
  await released(document.getElementById(card.id) ?? card);
  if (reloading.get(card.id) !== turn) return; // it has been asked for again
  reloading.delete(card.id);
  replace(document.getElementById(card.id) ?? card, fresh, ["children", "live"]);
  setExpanded(fresh, on);
}

const PARTS = ["input", "live", "output", "turn"].map((slot) => `:scope > [data-slot="${slot}"] > article`).join();
export const partsOf = (card) => [...card.querySelectorAll(PARTS)];

function replace(card, fresh, kept) {
  const hadFocus = card.contains(document.activeElement);
  const children = card.querySelector(':scope > [data-slot="children"]');
  if (children && kept.includes("children")) fresh.append(children);
  const growing = kept.includes("live") ? card.querySelectorAll(':scope > [data-slot="live"] > [data-piece]') : [];
  for (const piece of growing) slotOf(fresh, "live").append(piece);
  card.replaceWith(fresh);
  if (hadFocus && !fresh.contains(document.activeElement)) headOf(fresh)?.focus();
}

// Returns the card of a call, by its key.
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
