// Home: the table of sessions is kept up to date, and another filter shows other sessions without leaving the page.

import { Asks } from "./asks.js";
import { parse } from "./cards.js";
import { get } from "./feed.js";
import { Live, showConnection } from "./live.js";
import { LoggedOut } from "./origin.js";
import { Rows } from "./home_rows.js";
import { showWaiting } from "./waiting.js";

export function home(main) {
  let shown = location.search;
  const asks = new Asks(main.querySelector("#asks"));
  let rows = new Rows(main);
  let live = connect();
  showBudgets();

  function connect() {
    const made = new Live(main.dataset.live, {
      row: (html) => rows.put(parse(`<table><tbody>${html}</tbody></table>`).querySelector("tr")),
      gone: (name) => rows.put(null, name),
      counts: (data) => showCounts(JSON.parse(data)),
      asks: (html) => asks.show(html),
      waits: (data) => showWaiting(JSON.parse(data)),
      renew: () => rows.renew(),
    }, showConnection, () => []);
    made.connect(main.dataset.after);
    return made;
  }

  function showCounts({ shown, ...counts }) {
    for (const place of main.querySelectorAll("[data-count]")) {
      const value = counts[place.dataset.count];
      place.textContent = value.toLocaleString("en");
      if (place.dataset.count === "total") place.hidden = !value;
      else place.parentElement.classList.toggle("some", value > 0);
    }
    rows.isNone(shown === 0);
  }

  // Shows which budgets are exceeded: today and this month are those of the reader's time zone.
  async function showBudgets() {
    const place = main.querySelector("#budgets[data-address]");
    if (!place) return;
    const { timeZone = "" } = Intl.DateTimeFormat().resolvedOptions();
    try {
      place.replaceChildren(parse(await get(`${place.dataset.address}?zone=${encodeURIComponent(timeZone)}`)));
    } catch (error) {
      console.warn(error);
    }
  }

  // Shows the page of another address in place of this one.
  async function show(address) {
    const fresh = parse(await get(address)).querySelector("main[data-home]");
    live.close();
    rows.close();
    for (const name of ["rows", "live", "after"]) main.dataset[name] = fresh.dataset[name];
    const place = fresh.querySelector("#asks");
    asks.replace([...place.children]);
    place.replaceWith(asks.container);
    main.replaceChildren(...fresh.childNodes);
    shown = new URL(address, location.href).search;
    document.querySelector("#preferences [name=back]").value = `/${shown}`;
    rows = new Rows(main);
    live = connect();
    showBudgets();
  }

  async function go(address, isNew) {
    try {
      await show(address);
      if (isNew) history.pushState(null, "", address);
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    } catch (error) {
      if (error instanceof LoggedOut) location.reload();
      else location.assign(address);
    }
  }

  main.addEventListener("click", (event) => {
    const link = event.target.closest(".pills a:not(.sum)");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(link.href, true);
  });
  addEventListener("click", (event) => closeMenus((menu) => !menu.contains(event.target)));
  addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && event.target.closest?.("details.menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  addEventListener("popstate", () => location.search !== shown && go(location.href, false));
  addEventListener("pagehide", () => live.close());
  addEventListener("pageshow", ({ persisted }) => persisted && live.connect(live.after));

  function closeMenus(isOther) {
    for (const menu of main.querySelectorAll("details.menu[open]")) if (isOther(menu)) menu.open = false;
  }
}
