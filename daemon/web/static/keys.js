// The keyboard: keys that act where nothing is being typed, and how they go through the rows of pages without a timeline.

const TYPED = "input, select, textarea, button, :popover-open";
const ROWS = "main :is(tr, li, h2)";

// Runs the action of a key in `keys`, with the event. `isScrolled`: whether the arrow keys and the space bar scroll from an element.
export function listen(keys, isScrolled) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    if (event.target.closest(TYPED)) return;
    if (["ArrowDown", "ArrowUp", " "].includes(event.key) && isScrolled(event.target)) return;
    event.preventDefault();
    keys[event.key](event);
  });
}

export const showHelp = () => document.querySelector("#help")?.togglePopover();

// Goes through sessions, hits or agents. A row's place is its first link.
export function rowKeys() {
  const linkOf = (row) => row?.querySelector("a[href]");
  const current = () => linkOf(document.activeElement.closest(ROWS));
  const links = () => {
    const found = [...document.querySelectorAll(ROWS)].map(linkOf);
    return [...new Set(found)].filter((link) => link?.checkVisibility() && !link.closest("nav"));
  };

  function step(by) {
    const all = links();
    const at = all.indexOf(current());
    const next = at < 0 ? all[0] : all[at + by];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "nearest" });
  }

  listen({
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    o: () => current()?.click(),
    f: () => (document.querySelector("main :is(summary.pill, input[type=search], select)") ?? document.querySelector("#find"))?.focus(),
    "?": showHelp,
  }, (element) => !element.closest(ROWS));
}
