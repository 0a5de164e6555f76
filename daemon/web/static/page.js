// The script of the page: live events, expanding cards, the keyboard. Pages of the timeline are links, a card's header
// links to its event, and preferences and filters are forms (`forms.js`).

import { Asks } from "./asks.js";
import { board } from "./board.js";
import { append, enhance, findCard, headOf, isExpanded, make, parse, patch, refill, reload, slotOf, whenReleased } from "./cards.js";
import { composer, showTaken } from "./composer.js";
import { copyClicked, offerCopies } from "./copies.js";
import { Feed } from "./feed.js";
import { home } from "./home.js";
import { listen, rowKeys, showHelp } from "./keys.js";
import { Live, showConnection } from "./live.js";
import { here } from "./origin.js";
import { Overview } from "./overview.js";
import { palette } from "./palette.js";
import { references } from "./references.js";
import { reveal } from "./rows.js";
import { Seen } from "./seen.js";
import { share } from "./share.js";
import { tabs } from "./tabs.js";
import { followWaiting, offerNotifications, showWaiting } from "./waiting.js";

const AT_END = 80; // pixels from the end within which the reader follows
const MAX_PARTIALS = 16; // unfinished texts shown at a time
const MAX_KEY = 1_000; // characters of the key of an unfinished text, to name it to the server
const TOO_MANY = 300; // messages in one frame

history.replaceState(history.state, "", here() + location.hash); // without the pass
const main = document.querySelector("#timeline");
nameEvent();
enhance(document);
for (const button of document.querySelectorAll("button[data-copy]")) copies(button);
if (main.dataset.cards) timeline();
else rowKeys();
if ("home" in main.dataset) home(main);
if ("board" in main.dataset) board(main);
if (document.querySelector("#share")) share(document.querySelector("#share"));
tabs();
palette();
references();
offerNotifications();
followWaiting(["cards", "home", "board"].some((one) => one in main.dataset));

// Puts the id of the event of this address into it: its number changes when the journal is built again.
function nameEvent() {
  const address = new URL(location.href);
  if (!main.dataset.event || address.searchParams.has("event")) return;
  address.searchParams.set("event", main.dataset.event);
  history.replaceState(history.state, "", address);
}

function timeline() {
  const feed = new Feed(main, (last) => live.connect(last));
  const sessions = document.querySelector("#sessions");
  const head = document.querySelector("#head");
  const partials = make("div", "pieces");
  const jump = document.querySelector("#jump");
  const form = document.querySelector("#composer");
  const asks = document.querySelector("#asks") && new Asks(document.querySelector("#asks"));
  const queue = [];
  let isFollowing = false;
  let unseen = 0;
  feed.element.after(partials);
  if (head) {
    composer(form);
    showTaken(form, head);
    offerCopies(head);
    head.addEventListener("click", copyClicked);
  }

  const live = new Live(main.dataset.live, {
    card: (html, seq) => later(() => {
      if (feed.isNewest) arrive(html);
      else unseen += 1;
      overview?.changed();
    }),
    piece: (data) => later(() => feed.isNewest && showPartial(JSON.parse(data))),
    state: (html) => later(() => {
      patch([...parse(html).children], feed);
      overview?.changed();
    }),
    whole: (data) => later(() => partials.querySelector(`[data-key="${CSS.escape(JSON.parse(data).key)}"]`)?.remove()),
    sessions: (html) => sessions && whenReleased(sessions, () => showSessions(html)),
    asks: (html) => later(() => asks?.show(html)),
    waits: (data) => showWaiting(JSON.parse(data)),
    head: (html) => later(() => {
      if (head) refill(head, parse(html));
      if (head) showTaken(form, head);
      showWhere(head);
    }),
    gap: (data) => later(() => showGap(JSON.parse(data))),
    live: (_, seq) => later(() => feed.isNewest && feed.reach(seq)),
    at: (_, seq) => later(() => feed.isNewest && feed.reach(seq)),
  }, showConnection, () => [...partials.children].map((one) => one.dataset.key).filter((key) => key.length <= MAX_KEY));

  // Shows all changes since the last animation frame at once; not while a card is pressed.
  function later(change) {
    if (queue.push(change) > 1) return;
    const show = () => whenReleased(feed.element, flush);
    if (document.hidden) setTimeout(show, 500);
    else requestAnimationFrame(show);
  }

  function flush() {
    const changes = queue.splice(0);
    if (changes.length > TOO_MANY && feed.isNewest) return catchUp(changes.length);
    for (const change of changes) change();
    feed.trim();
    follow();
  }

  // Too many events to show one by one: a reader at the end gets the newest page, any other stays where they are.
  async function catchUp(count) {
    live.close();
    partials.replaceChildren();
    live.after = feed.element.lastElementChild.dataset.last;
    if (isFollowing) return feed.renew().catch(() => live.retry());
    feed.leave();
    unseen += count;
    live.connect("now");
  }

  function follow() {
    if (isFollowing) scrollTo(0, document.documentElement.scrollHeight);
    jump.hidden = isFollowing && feed.isNewest;
    document.querySelector("#count").textContent = unseen ? `(${unseen} new)` : "";
    seen?.note();
  }

  function arrive(html) {
    document.querySelector("#empty").hidden = true;
    const [article, ...patches] = parse(html).children;
    if (feed.add(article, patches) && !isFollowing) unseen += 1;
  }

  function showPartial(partial) {
    if (partial.into) {
      const card = findCard(partial.into, feed.element);
      if (card) append(placeFor(slotOf(card, "live"), partial.stream, "pre", "terminal"), partial);
      return;
    }
    const place = placeFor(partials, partial.key, "article", `card piece ${partial.role}`);
    append(place, partial);
    while (partials.childElementCount > MAX_PARTIALS) partials.firstElementChild.remove();
  }

  function placeFor(parent, key, tag, className) {
    const found = parent.querySelector(`:scope > [data-key="${CSS.escape(key)}"]`);
    if (found) return found;
    const place = make(tag, className);
    place.dataset.key = key;
    place.dataset.piece = "";
    parent.append(place);
    return place;
  }

  function showSessions(html) {
    if (!sessions.hasAttribute("data-live")) return;
    const focused = document.activeElement.closest("#sessions li")?.dataset.session;
    sessions.replaceChildren(parse(html));
    markSession();
    if (focused !== undefined) sessions.querySelector(`li[data-session="${CSS.escape(focused)}"] a`)?.focus();
  }

  function markSession() {
    const shown = sessions?.querySelector(`li[data-session="${CSS.escape(sessions.dataset.session)}"] a`);
    shown?.setAttribute("aria-current", "page");
  }

  async function showGap({ from, to, reason }) {
    partials.replaceChildren(); // what would end them may be among the events that are gone
    const lost = reason === "corrupt" ? "are damaged in the journal" : "were not kept";
    const note = make("p", "gap", `Events between ${from} and ${to} ${lost}.`);
    note.setAttribute("role", "note");
    if (reason === "reset") {
      note.textContent = "The journal is another one than before.";
      live.close();
      await feed.renew().catch(() => live.retry());
    }
    feed.open(to + 1).append(note);
  }

  async function toNewest() {
    if (!feed.isNewest) await feed.renew();
    history.replaceState(null, "", main.dataset.page);
    isFollowing = true; // not before: a scroll while the page changes would end it
    unseen = 0;
    follow();
  }

  // Moves to an event, and names it in the address; `Infinity` is the end.
  async function goTo(seq) {
    if (seq === Infinity) return toNewest();
    isFollowing = false;
    await feed.show(seq);
    const address = new URL(main.dataset.page, location.href);
    address.searchParams.set("at", seq);
    history.replaceState(null, "", address);
    follow();
  }

  addEventListener("scroll", () => {
    isFollowing = feed.isNewest && document.documentElement.scrollHeight - innerHeight - scrollY < AT_END;
    if (isFollowing) unseen = 0;
    follow();
  }, { passive: true });
  new ResizeObserver(follow).observe(feed.element);
  jump.addEventListener("click", () => (overview ? overview.move(Infinity) : toNewest()));
  feed.element.addEventListener("click", (event) => {
    const head = event.target.closest("a.head");
    if (!head?.hasAttribute("aria-expanded") || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    reload(head.closest("article.card"), !isExpanded(head.closest("article.card"))).catch(() => location.assign(head.href));
  });
  markSession();

  const at = location.hash.slice(1) || `e${new URL(location.href).searchParams.get("at")}`;
  const target = document.getElementById(at);
  const show = (card) => (reveal(card), card?.scrollIntoView({ block: "center" }));
  addEventListener("hashchange", () => show(document.getElementById(location.hash.slice(1))));
  const seen = head && new Seen(feed, !new URL(main.dataset.page, location.href).search);
  const opens = seen?.place();
  if (target) show(target);
  else if (opens !== undefined) {
    history.scrollRestoration = "manual";
    feed.show(opens).then(follow);
  } else if (feed.isNewest) {
    history.scrollRestoration = "manual";
    isFollowing = true;
  }
  follow();
  const overview = document.querySelector("#minimap") && new Overview(feed, goTo, () => isFollowing);
  keyboard(feed, overview);
  showWhere(head);
  live.connect(feed.isNewest ? feed.links.newer.dataset.cursor : "now");
  addEventListener("pagehide", () => live.close());
  addEventListener("pageshow", ({ persisted }) => persisted && live.connect(live.after));
}

// Shows in the bar what the session is and costs, and its state, while its head is out of sight.
function showWhere(head) {
  const where = document.querySelector("#where");
  if (!where) return;
  where.firstElementChild.textContent = head.querySelector("h1").textContent;
  where.lastElementChild.textContent = [...head.querySelectorAll(".glance :is(.state, .cost)")].map((one) => one.textContent).join(" · ");
  where.observer ??= new IntersectionObserver(([head]) => where.toggleAttribute("hidden", head.isIntersecting), { rootMargin: `-${document.querySelector(".top").offsetHeight}px 0px 0px` });
  where.observer.disconnect();
  where.observer.observe(head.querySelector("h1"));
}

function keyboard(feed, overview) {
  const rows = ":scope > section > article, :scope > section > .run > details[open] > .run-rows > article";
  const cards = () => [...feed.element.querySelectorAll(rows)].filter((one) => headOf(one)?.checkVisibility());
  const current = () => document.activeElement.closest?.("#feed article");

  function step(by) {
    const all = cards();
    const at = all.findLast((one) => one.contains(document.activeElement));
    focus(at ? all[all.indexOf(at) + by] : (feed.firstBelow(innerHeight / 3) ?? all.at(-1)));
  }

  function focus(card) {
    if (!card) return;
    headOf(card)?.focus({ preventScroll: true });
    card.scrollIntoView({ block: "nearest" });
  }

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    " ": () => headOf(current()).click(),
    o: () => current() && (headOf(current()).href ? location.assign(headOf(current()).href) : headOf(current()).click()),
    g: () => (feed.links.older.hidden ? scrollTo(0, 0) : location.assign(main.dataset.oldest)),
    G: () => document.querySelector("#jump").click(),
    n: () => overview?.toTurn(1),
    p: () => overview?.toTurn(-1),
    "]": () => overview?.toTurn(1),
    "[": () => overview?.toTurn(-1),
    f: () => {
      const text = document.querySelector("#text");
      if (!text.checkVisibility()) text.form.showPopover();
      text.focus();
    },
    c: () => document.querySelector("#head button[data-line]:not([hidden])")?.click(),
    "?": showHelp,
  };
  listen(keys, (element) => !element.matches("#feed :is(a.head, summary)"));
}

function copies(button) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).querySelector(".json").textContent.trim());
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 2_000);
  });
}
