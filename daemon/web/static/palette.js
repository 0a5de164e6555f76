// The palette (⌘K, Ctrl-K, or /): one field over every page that finds sessions, files, commands, text, and the page's
// own actions. The newest sessions and the actions are compared here at once; the daemon is asked for the rest.

import { parse } from "./cards.js";
import { get } from "./feed.js";
import { LoggedOut } from "./origin.js";

const PAUSE = 120; // milliseconds without a key until the daemon is asked
const SHOWN = 6; // most sessions of those that are compared here

export function palette() {
  const dialog = document.querySelector("#palette");
  if (!dialog) return;
  const field = dialog.querySelector("#palette-text");
  const list = dialog.querySelector("#palette-list");
  const found = dialog.querySelector("[data-found]");
  const all = dialog.querySelector("[data-all]");
  const actions = [...dialog.querySelectorAll("a[data-words]")];
  let newest; // the newest sessions, as the daemon listed them
  let asked = 0; // how often the daemon was asked: an answer to anything but the last question is stale
  let isChosen = false; // by the reader: then it stays when an answer comes
  let timer;

  const options = () => [...list.querySelectorAll('[role="option"]')].filter((one) => one.checkVisibility());
  const active = () => document.getElementById(field.getAttribute("aria-activedescendant") ?? "");

  function open(text = "") {
    if (dialog.open) return field.select();
    field.value = text;
    isChosen = false;
    found.replaceChildren();
    newest = undefined;
    for (const one of actions) one.toggleAttribute("data-unable", !isPossible(one.dataset.action));
    dialog.showModal();
    compare();
    ask("");
    if (text.trim()) later();
  }

  // Shows at once what needs no question: the newest sessions and the actions that have all the words.
  function compare() {
    const text = field.value.trim();
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (one) => words.every((word) => one.dataset.words.includes(word));
    for (const one of actions) one.hidden = one.hasAttribute("data-unable") || !has(one);
    all.hidden = !text;
    all.href = `/search?${new URLSearchParams({ text })}`;
    all.querySelector("[data-typed]").textContent = text;
    if (newest) {
      const group = newest.cloneNode(true);
      const named = [...group.querySelectorAll('[role="option"]')];
      named.filter((one) => !has(one)).forEach((one) => one.remove());
      [...group.querySelectorAll('[role="option"]')].slice(SHOWN).forEach((one) => one.remove());
      found.querySelector("[data-sessions]")?.remove();
      if (group.querySelector('[role="option"]')) found.prepend(group);
      if (!text) found.replaceChildren(...found.querySelectorAll("[data-sessions]"));
    }
    choose();
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(() => ask(field.value), PAUSE);
  }

  async function ask(text) {
    const number = (asked += 1);
    list.setAttribute("aria-busy", "true");
    try {
      const fresh = parse(await get(`/find?${new URLSearchParams({ text })}`));
      if (text === "") newest = fresh.querySelector("[data-sessions]") ?? undefined;
      if (number !== asked || !dialog.open) return text === "" && dialog.open && compare();
      if (text.trim() === field.value.trim()) show(text, fresh);
    } catch (error) {
      if (error instanceof LoggedOut) return location.reload();
      console.warn(error);
    }
    if (number === asked) list.removeAttribute("aria-busy");
  }

  function show(text, fresh) {
    if (text.trim() === "") return compare();
    const before = isChosen && active();
    found.replaceChildren(fresh);
    choose(before ? options().find((one) => one.id === before.id && one.href === before.href) : undefined);
    const count = found.querySelectorAll('[role="option"]').length;
    dialog.querySelector("#palette-said").textContent = count === 1 ? "1 found" : `${count} found`;
  }

  // Makes an option the one that Enter opens: the first one, unless another is given.
  function choose(option = options()[0]) {
    for (const one of list.querySelectorAll("[aria-selected]")) one.removeAttribute("aria-selected");
    if (!option) return field.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    field.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    isChosen = true;
    const every = options();
    const at = every.indexOf(active()) + by;
    choose(every[(at + every.length) % every.length]);
  }

  function go(option) {
    dialog.close();
    const { action } = option.dataset;
    if (action) return act(action);
    const card = option.hash ? document.getElementById(option.hash.slice(1)) : null;
    if (card?.checkVisibility()) return location.assign(option.hash); // it is on this page
    location.assign(option.href);
  }

  const keys = {
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    Enter: ({ ctrlKey, metaKey }) => {
      const option = active();
      if (!option) field.form.requestSubmit();
      else if ((ctrlKey || metaKey) && !option.dataset.action) window.open(option.href, "_blank", "noopener");
      else go(option);
    },
  };

  field.addEventListener("input", () => {
    asked += 1; // what was asked before is stale
    isChosen = false;
    compare();
    later();
  });
  field.addEventListener("keydown", (event) => {
    if (event.isComposing || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key](event);
  });
  list.addEventListener("click", (event) => {
    const option = event.target.closest('[role="option"]');
    if (!option || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(option);
  });
  list.addEventListener("mousemove", (event) => {
    const option = event.target.closest('[role="option"]');
    if (!option || option === active()) return;
    isChosen = true;
    choose(option);
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
  });
  dialog.addEventListener("close", () => clearTimeout(timer));

  addEventListener("keydown", (event) => {
    const isShortcut = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
    const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, select, textarea, dialog, :popover-open, [contenteditable]");
    if (!isShortcut && !isSlash) return;
    event.preventDefault();
    open();
  });
  const way = document.querySelector("header #find");
  way?.addEventListener("click", () => open(way.value));
  way?.addEventListener("input", () => open(way.value));
}

const FAILED = '#feed article:is([data-status="failed"], [data-status="error"], [data-status="denied"])';

function isPossible(action) {
  if (action === "failed") return Boolean(document.querySelector("#feed"));
  return !action || Boolean(document.getElementById(action));
}

function act(action) {
  if (action !== "failed") return document.getElementById(action).showPopover();
  const main = document.querySelector("#timeline");
  const from = document.activeElement?.closest("#feed article");
  const isAfter = (one) => (from ? from.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING : one.getBoundingClientRect().top > innerHeight / 2);
  const next = [...document.querySelectorAll(FAILED)].find((one) => one.checkVisibility() && isAfter(one));
  if (next) return next.querySelector(":scope > header .head")?.focus() ?? next.scrollIntoView({ block: "center" });
  const address = new URL(main.dataset.page, location.href);
  address.searchParams.set("state", "failed");
  return location.assign(address);
}
