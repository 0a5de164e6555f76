// Rows of a timeline in the browser: folds runs of reads and searches, and counts what subagents did, by the same rules
// as the server (daemon/web/page/rows.py): change both together. What a reader has opened or closed stays so while the
// page is open, also when its section is fetched again.

import { make } from "./cards.js";

const FEWEST = 2; // calls in a fold, at least
const NOTABLE = 50; // milliseconds from which on a time is shown
const FOLDED = 'article.tool-call:is([data-family="read"], [data-family="search"])[data-status="completed"]';
const ASIDE = ".usage, .session, .turn:not([data-state='started']), [data-slot='children'] .turn, .turn[data-agent], .turn[data-into]";
const remembered = new Map(); // key of a fold or a subagent -> whether the reader has opened it

// Whether a card only reports usage, or describes a session or a turn that begins elsewhere.
export const isAside = (article) => article.matches(ASIDE);

// Folds the runs among the rows in an element, all but the last row: it is still being looked at.
export function fold(element) {
  const rows = [...element.children].filter((one) => one.localName === "article");
  let run = [];
  for (const row of rows.slice(0, -1)) {
    if (isFoldable(row) && (!run.length || byOf(run[0]) === byOf(row))) run.push(row);
    else {
      close(run);
      run = isFoldable(row) ? [row] : [];
    }
  }
  close(run);
}

const isFoldable = (row) =>
  row.matches(".run") || (row.matches(FOLDED) && row.dataset.level === "title" && !row.matches(":focus-within") && !row.querySelector(':scope > [data-slot="children"]'));
const byOf = (row) => (row.matches(".run") ? row.querySelector("article") : row).dataset.by;

function close(run) {
  const cards = run.flatMap((row) => (row.matches(".run") ? [...row.querySelectorAll("article.card")].filter((one) => one.dataset.call) : [row]));
  if (cards.length < FEWEST || (run.length === 1 && run[0].matches(".run"))) return;
  const found = run.find((row) => row.matches(".run"));
  const whole = found ?? made(cards[0]);
  if (!found) run[0].before(whole);
  const inside = whole.querySelector(".run-rows");
  for (const card of cards) inside.append(card);
  for (const row of run) if (row !== whole && row.matches(".run")) row.remove();
  describe(whole, cards);
}

// Puts the rows of a run in its place: they belong elsewhere.
export function unfold(run) {
  run.replaceWith(...run.querySelector(".run-rows").children);
}

function made(first) {
  const whole = make("article", "run");
  whole.dataset.fold = first.id;
  const details = make("details", "");
  const summary = make("summary", "");
  summary.append(make("span", "title", "Explored"), " ", Object.assign(make("span", "preview"), { dir: "auto" }), " ", make("span", "fact took"));
  details.append(summary, make("div", "run-rows"));
  whole.append(details);
  return whole;
}

function describe(whole, cards) {
  whole.querySelector(".preview").textContent = labelOf(cards);
  const began = Number(cards[0].dataset.ts ?? NaN);
  const ended = cards.flatMap((card) => [...card.querySelectorAll(':scope > [data-slot="output"] > article')].map((one) => Number(one.dataset.ts ?? NaN)));
  const last = Math.max(...ended.filter((one) => !Number.isNaN(one)));
  let took = whole.querySelector(".took");
  if (!took) whole.querySelector("summary").append(" ", (took = make("span", "fact took")));
  took.textContent = Number.isFinite(last - began) ? spent(last - began) : "";
}

function labelOf(cards) {
  const reads = cards.filter((one) => one.dataset.family === "read");
  const paths = [...new Set(reads.map((one) => one.dataset.target?.replaceAll("\\", "/")).filter(Boolean))];
  const searches = cards.length - reads.length;
  const counts = [searches && counted(searches, "search", "searches"), reads.length && counted(reads.length, "read")].filter(Boolean).join(", ");
  const where = whereOf(paths);
  return where ? `${where} — ${counts}` : counts;
}

function whereOf(paths) {
  if (paths.length < 2) return paths[0]?.split("/").at(-1) ?? "";
  let common = paths[0].split("/").slice(0, -1);
  for (const path of paths.slice(1)) {
    const folders = path.split("/").slice(0, -1);
    const same = common.findIndex((one, at) => one !== folders[at]);
    if (same >= 0) common = common.slice(0, same);
  }
  return counted(paths.length, "file") + (common.at(-1) ? ` in ${common.at(-1)}/` : "");
}

export const counted = (number, one, several = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : several}`;

function spent(milliseconds) {
  const seconds = milliseconds / 1000;
  if (milliseconds < NOTABLE) return "";
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${seconds.toFixed(0)} s`;
  const whole = Math.round(seconds);
  if (whole < 600) return whole % 60 ? `${Math.floor(whole / 60)} m ${whole % 60} s` : `${whole / 60} min`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")}` : `${Math.floor(hours / 24)} d`;
}

// The place of what a subagent does, open while it runs.
export function childrenOf(card) {
  const found = card.querySelector(':scope > [data-slot="children"]');
  if (found) return found;
  const place = make("details", "children");
  place.dataset.slot = "children";
  place.open = remembered.get(keyOf(place, card)) ?? ["pending", "running", "awaiting-permission"].includes(card.dataset.status);
  place.append(make("summary", ""));
  card.insertBefore(place, card.querySelector(':scope > [data-slot="turn"]'));
  return place;
}

export function count(card) {
  for (let one = card; one; one = one.parentElement.closest("article.card")) {
    const place = one.querySelector(':scope > [data-slot="children"]');
    if (place) place.querySelector(":scope > summary").textContent = counted(place.querySelectorAll("article.tool-call").length, "call");
  }
}

const keyOf = (details, card = details.closest("article")) => card.dataset.fold ?? card.dataset.call ?? card.id;
const DETAILS = "article.run > details, article > details.children";

// Opens and closes what the reader has opened or closed before.
export function restore(root) {
  if (remembered.size) for (const one of root.querySelectorAll(DETAILS)) one.open = remembered.get(keyOf(one)) ?? one.open;
}

export function remember(element) {
  element.addEventListener("click", ({ target }) => {
    const details = target.closest("summary")?.parentElement;
    if (details?.matches(DETAILS)) remembered.set(keyOf(details), !details.open);
  });
}

// Opens everything that a card is folded away in.
export function reveal(card) {
  for (let one = card?.parentElement.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
}
