// That something waits, told where one looks: the pill in the bar, the title of the page and its icon, and notifications
// of the browser, if the reader has turned them on here.
//
// Pages with live content get it by their own connections. The other pages of a browser have one connection together:
// the page that holds the lock tells them. If that is a page with live content, it needs no second connection.

import { Live, showConnection } from "./live.js";

const KEY = "tooltap-notify";
const SHARED = "tooltap-waiting"; // name of the lock and of the channel
const ASKED = "what waits?"; // a page has opened
const ICONS = { false: "/static/icon.svg", true: "/static/icon-waiting.svg" };
const title = document.title;
let latest; // what waits, as this page has heard last
let tells; // the channel to the other pages, while this page tells them
let known; // ids of the questions that the reader has been told of; undefined until the first list is there

// Keeps what waits up to date as long as the page is shown. `isLive`: whether its own connection says it.
export function followWaiting(isLive) {
  const out = (state) => state === "out" && showConnection(state);
  const live = new Live("/waiting/live", { waits: (data) => showWaiting(JSON.parse(data)) }, out, () => []);
  const begin = () => isLive || live.connect("now");
  let leaving;

  async function join() {
    if (!navigator.locks) return begin(); // over plain HTTP from another machine
    leaving = new AbortController();
    const { signal } = leaving;
    const channel = new BroadcastChannel(SHARED);
    channel.onmessage = ({ data }) => {
      if (data === ASKED) tells && latest && tells.postMessage(latest);
      else if (!isLive) show(data);
    };
    channel.postMessage(ASKED);
    signal.addEventListener("abort", () => channel.close());
    const left = new Promise((leave) => signal.addEventListener("abort", leave));
    await navigator.locks.request(SHARED, { signal }, () => {
      tells = channel;
      if (latest) channel.postMessage(latest);
      begin();
      return left;
    }).catch(() => {}); // left before the lock was free
  }

  join();
  addEventListener("pagehide", () => {
    leaving?.abort();
    tells = undefined;
    live.close();
  });
  addEventListener("pageshow", ({ persisted }) => persisted && join());
}

// Shows what waits now, here and on the pages that this one tells: `asks` are `{id, who, what, about, url}`.
export function showWaiting(waits) {
  tells?.postMessage(waits);
  show(waits);
}

function show(waits) {
  latest = waits;
  showCount(waits.waiting);
  const fresh = known && waits.asks.filter(({ id }) => !known.has(id));
  known = new Set(waits.asks.map(({ id }) => id));
  const isTheOne = tells || !navigator.locks; // of the pages that hear of it
  if (isTheOne && isOn() && !document.hasFocus()) fresh?.forEach(notify);
}

// Shows how many sessions wait, in all parts of the page.
function showCount(waiting) {
  const pill = document.querySelector("#waits");
  pill.hidden = !waiting;
  pill.querySelector("span").textContent = waiting;
  document.title = waiting ? `(${waiting}) ${title}` : title;
  document.querySelector("link[rel=icon]").href = ICONS[waiting > 0];
}

function notify({ id, who, what, about, url }) {
  const told = new Notification(`${who} ${what}`, { body: about, tag: id, icon: ICONS[true] });
  told.onclick = () => {
    told.close();
    focus();
    if (location.pathname !== url) location.assign(url);
  };
}

const isOn = () => "Notification" in globalThis && Notification.permission === "granted" && localStorage.getItem(KEY) === "on";

// Offers to turn notifications on and off, where the browser has them.
export function offerNotifications() {
  showCount(Number(document.querySelector("#waits span").textContent));
  const box = document.querySelector("#notify");
  if (!box || !("Notification" in globalThis)) return; // over plain HTTP from another machine
  const input = box.querySelector("input");
  box.hidden = false;
  show();
  input.addEventListener("change", async () => {
    localStorage.setItem(KEY, input.checked ? "on" : "off");
    if (input.checked && Notification.permission === "default") await Notification.requestPermission();
    show();
  });

  function show() {
    input.checked = isOn();
    box.querySelector(".note").textContent = Notification.permission === "denied" ? "The browser does not allow this page to: change that beside its address." : "";
  }
}
