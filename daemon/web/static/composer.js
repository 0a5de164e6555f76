// A prompt to the agent of a session, and its interrupt. A prompt that is sent again, because nobody knows whether it
// has come, has the same key: the agent gets it once.

import { LoggedOut, tell } from "./origin.js";

export function composer(form) {
  const session = JSON.parse(form.dataset.session);
  const text = form.querySelector("textarea");
  const said = form.querySelector(".said");
  let sent; // {text, key} of the prompt that was sent last, until it has come

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.querySelector("[data-stop]").addEventListener("click", () => request("/api/interrupt", { session }, "Stopped."));

  async function send() {
    if (!text.value.trim()) return;
    if (sent?.text !== text.value) sent = { text: text.value, key: newKey() };
    if (!(await request("/api/send", { session, ...sent }, "Sent."))) return;
    if (text.value === sent.text) text.value = "";
    sent = undefined;
  }

  async function request(address, values, done) {
    for (const button of form.querySelectorAll("button")) button.disabled = true;
    said.textContent = "…";
    try {
      const { delivered } = await tell(address, values);
      said.textContent = delivered ? done : "The agent gets it as soon as it is connected again.";
      return true;
    } catch (error) {
      if (error instanceof LoggedOut) return location.reload();
      said.textContent = error.code ? error.message : "The daemon cannot be reached. Send it again: the agent gets it once.";
      return false;
    } finally {
      for (const button of form.querySelectorAll("button")) button.disabled = false;
    }
  }
}

const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

// Shows what the head of the session says: whether its agent takes prompts, and whether there is something to stop.
export function showTaken(form, head) {
  const state = head.querySelector(".state");
  form.hidden = !("takesPrompts" in state.dataset);
  form.querySelector("[data-stop]").hidden = !["running", "waiting"].includes(state.dataset.status);
}
