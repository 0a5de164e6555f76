// What proves to the daemon that a page of its own origin asks. The cookie does not: browsers send it to every port of
// the host. The secret is in the storage of the origin, which has a port, and goes as a header to that origin alone.
// Where a browser sends no header (an address that it opens, live events, forms) the address gets a signature, which
// the daemon gives for the secret, for that address alone.

const KEY = "tooltap";
const SIGNATURE = "pass"; // key of a signature in the query
const NEVER_STAYS = new RegExp(`^(${SIGNATURE}|token)=`);

export class LoggedOut extends Error {}

// The daemon has refused a request; the message is its sentence. `code`: as in its JSON.
export class Refused extends Error {
  constructor(code, sentence) {
    super(sentence);
    this.code = code;
  }
}

// Returns the address of this page as the browser sends it, without a signature, and without a token that an old link has.
export function here() {
  const parts = location.search.slice(1).split("&").filter((one) => one && !NEVER_STAYS.test(one));
  return location.origin + location.pathname + (parts.length ? `?${parts.join("&")}` : "");
}

// Returns when the signature in this page's address expires; NaN if it has none.
export function expiry() {
  return Number(new URLSearchParams(location.search).get(SIGNATURE)?.split(".")[0] ?? NaN);
}

// Asks the daemon with the secret. Throws `LoggedOut` if that does not let us in, and `Refused`.
export async function ask(address, options = {}) {
  const secret = localStorage.getItem(KEY);
  if (secret === null) throw new LoggedOut();
  const response = await fetch(address, { ...options, headers: { ...options.headers, "Tooltap-Page": secret } });
  if (response.status === 403) throw new LoggedOut();
  if (!response.ok) {
    const { error } = await response.json().catch(() => ({}));
    throw new Refused(error?.code, error?.message ?? `${response.status} for ${address}`);
  }
  return response;
}

// Sends a JSON object, and returns the answer, which is one.
export async function tell(address, values) {
  const headers = { "Content-Type": "application/json" };
  return (await ask(address, { method: "POST", headers, body: JSON.stringify(values) })).json();
}

// Returns an address of ours with a signature, in full: a path that begins with two slashes would be another host.
// `signal`: aborts.
export async function admitted(address, signal) {
  const { pathname, search } = new URL(address, location.href);
  const signature = await (await ask("/pass", { method: "POST", body: pathname + search, signal })).text();
  return `${location.origin}${pathname}${search}${search ? "&" : "?"}${SIGNATURE}=${signature}`;
}

// Returns the code in a link, or "".
export const codeIn = (link) => link.split("#login=")[1]?.trim() ?? "";

// Logs this browser in. Returns what is wrong, or "".
export async function enter(code) {
  const response = await fetch("/login", { method: "POST", body: code });
  if (response.status === 403) return "This link was used before, or is too old.";
  if (!response.ok) return (await response.json()).error.message;
  localStorage.setItem(KEY, (await response.json()).secret);
  return "";
}

export const forget = () => localStorage.removeItem(KEY);
export const wasIn = () => localStorage.getItem(KEY) !== null;

// A link that is opened where a page of ours is open already changes only what is after the `#`.
addEventListener("hashchange", () => codeIn(location.hash) && location.reload());
