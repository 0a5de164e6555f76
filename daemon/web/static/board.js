// The board: replaces the parts of columns that have changed, and counts how long things take.

import { Asks } from "./asks.js";
import { parse, whenReleased } from "./cards.js";
import { Live, showConnection } from "./live.js";
import { showWaiting } from "./waiting.js";

const MOST_OUTPUTS = 64; // calls
const KEYS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };

export function board(main) {
  const columns = main.querySelector("#columns");
  const summary = main.querySelector("#board-summary");
  const asks = new Asks(main.querySelector("#asks"));
  const outputs = new Map(); // key of a running call -> its last lines

  const live = new Live(main.dataset.board, {
    column: (data) => place(JSON.parse(data)),
    columns: (data) => arrange(JSON.parse(data)),
    output: (data) => print(JSON.parse(data)),
    asks: (html) => asks.show(html),
    waits: (data) => showWaiting(JSON.parse(data)),
  }, showConnection, () => [...columns.children].map((one) => one.dataset.version));

  // Replaces what has changed of a column. A new one is put into its place by `arrange`.
  function place({ id, html }) {
    const fresh = parse(html).querySelector("section");
    const old = document.getElementById(id);
    show(fresh);
    if (!old) columns.append(fresh);
    else {
      for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
      for (const { name, value } of fresh.attributes) old.setAttribute(name, value);
      for (const part of [...fresh.children]) replace(old.querySelector(`:scope > [data-part="${part.dataset.part}"]`), part);
    }
  }

  function replace(old, fresh) {
    whenReleased(old, () => replaceNow(old, fresh));
  }

  function replaceNow(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    const focused = old.contains(document.activeElement) ? document.activeElement : undefined;
    old.replaceWith(fresh);
    if (focused?.href) [...fresh.querySelectorAll("a")].find((one) => one.href === focused.href)?.focus({ preventScroll: true });
  }

  function arrange({ order, summary: words }) {
    summary.replaceChildren(parse(words));
    for (const one of [...columns.children]) if (!order.includes(one.id)) one.remove();
    order.forEach((id, at) => {
      const one = document.getElementById(id);
      if (one && columns.children[at] !== one) move(one, columns.children[at]);
    });
  }

  function move(one, before) {
    const focused = one.contains(document.activeElement) && document.activeElement;
    columns.insertBefore(one, before ?? null);
    if (focused) focused.focus({ preventScroll: true });
  }

  function print({ call, text }) {
    outputs.delete(call);
    outputs.set(call, text);
    if (outputs.size > MOST_OUTPUTS) outputs.delete(outputs.keys().next().value);
    show();
  }

  // Writes what only the script knows: the output of calls, and how long things have taken.
  function show(root = columns) {
    for (const output of root.querySelectorAll("[data-output]")) {
      const text = outputs.get(output.dataset.output) ?? "";
      if (output.textContent !== text) output.textContent = text;
      output.hidden = !text;
    }
    for (const time of root.querySelectorAll("time[data-since]")) {
      const text = lasted(Date.now() - Number(time.dataset.since), time.hasAttribute("data-over"));
      if (time.textContent !== text) time.textContent = text;
    }
  }

  main.addEventListener("keydown", (event) => {
    if (!Object.hasOwn(KEYS, event.key) || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const column = event.target.closest(".column");
    if (!column || event.target.closest("[tabindex]")) return; // what scrolls uses the arrows
    event.preventDefault();
    const next = [...columns.children][[...columns.children].indexOf(column) + KEYS[event.key]];
    next?.querySelector("h2 a").focus({ preventScroll: true });
    next?.scrollIntoView({ block: "nearest" });
  });

  show();
  setInterval(show, 1_000);
  live.connect("now");
  addEventListener("pagehide", () => live.close());
  addEventListener("pageshow", ({ persisted }) => persisted && live.connect("now"));
}

// Says how long something takes, or how long ago it ended: `12 s`, `3 min`, `1 h 03`.
function lasted(milliseconds, isOver) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1_000));
  const minutes = Math.floor(seconds / 60);
  const text = seconds < 120 ? `${seconds} s` : minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")}`;
  return isOver ? `${text} ago` : text;
}
