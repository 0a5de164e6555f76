// The page from which a session is downloaded: the preview follows what is chosen, as the address does.

import { get } from "./feed.js";
import { parse } from "./cards.js";
import { LoggedOut } from "./origin.js";

export function share(form) {
  let asked = 0;

  form.addEventListener("change", renew);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    renew();
  });

  async function renew() {
    if (!form.checkValidity()) return form.reportValidity();
    const preview = document.querySelector("#preview");
    const given = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const address = `${form.getAttribute("action")}${given.size ? `?${given}` : ""}`;
    const number = ++asked;
    preview.ariaBusy = "true";
    try {
      const fresh = parse(await get(address));
      if (number !== asked) return;
      preview.replaceWith(fresh.querySelector("#preview"));
      showRisk(fresh.querySelector("#share .risk"));
      history.replaceState(null, "", address);
    } catch (error) {
      if (error instanceof LoggedOut) location.reload();
      else location.assign(address);
    }
  }

  // The choice to leave secrets in the file is there where the part has some.
  function showRisk(fresh) {
    const shown = form.querySelector(".risk");
    if (!fresh) shown?.remove();
    else if (!shown) form.querySelector("p").before(fresh);
  }
}
