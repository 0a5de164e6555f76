// The script of the login page, with which every address answers until a page of our own origin opens it. It logs the
// browser in if the address has a link's code, and opens the address with a signature.

import { LoggedOut, admitted, codeIn, enter, expiry, forget, here, wasIn } from "./origin.js";

const JUST_NOW = 55_000; // milliseconds that a fresh signature has left, at least

const target = here();
const code = codeIn(location.hash);
const hash = code ? "" : location.hash;
const hadToken = new URLSearchParams(location.search).has("token");

async function come() {
  const wrong = code && (await enter(code));
  if (code || hadToken) history.replaceState(null, "", target);
  if (wrong && !wasIn()) return stay(wrong);
  if (expiry() - Date.now() > JUST_NOW) return stay("This browser does not store the cookie that the page needs.");
  const address = await admitted(target);
  if (document.readyState !== "complete") await new Promise((resolve) => addEventListener("load", resolve));
  return location.replace(address + hash);
}

function stay(reason) {
  document.title = "Log in · tooltap";
  document.querySelector("#reason").textContent = reason;
  document.querySelector("#out").hidden = false;
}

document.querySelector("#enter").addEventListener("submit", async (event) => {
  event.preventDefault();
  const wrong = await enter(codeIn(document.querySelector("#link").value)).catch(String);
  if (wrong) stay(wrong);
  else location.reload();
});

come().catch((error) => {
  if (!(error instanceof LoggedOut)) return stay(`The daemon cannot be asked: ${error.message}`);
  const reason = hadToken ? "A token in an address is no longer accepted." : "";
  const ended = wasIn();
  forget();
  return stay(ended ? "This browser's login has ended." : reason);
});
