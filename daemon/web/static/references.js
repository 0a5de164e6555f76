// Files that an answer names: one that the session changed opens its diff.

import { ask } from "./origin.js";

const LINE = /:\d+(-\d+)?$/;

export function references() {
  const session = document.querySelector("#aside[data-session]")?.dataset.session;
  if (session === undefined) return;
  const place = (event) => event.target.closest?.(".prose code.file[role=link]");
  document.addEventListener("click", (event) => place(event) && open(place(event), session));
  document.addEventListener("keydown", (event) => event.key === "Enter" && place(event) && open(place(event), session));
}

async function open(file, session) {
  const of = `/sessions/${encodeURIComponent(session)}/files`;
  const { files } = await (await ask(`/api${of}`)).json();
  const named = plain(file.textContent.replace(LINE, ""));
  const found = files.find(({ path }) => ends(plain(path), named) || ends(named, plain(path)));
  if (found) return location.assign(`${of}?${new URLSearchParams({ open: found.path })}`);
  file.removeAttribute("role");
  file.removeAttribute("tabindex");
  file.title = "This session did not change this file.";
  const said = document.createElement("small");
  said.setAttribute("role", "status");
  said.textContent = " (not changed here)";
  file.after(said);
}

const plain = (path) => `/${path.replaceAll("\\", "/").replace(/^(\.?\/)+/, "")}`;
const ends = (path, end) => path.endsWith(end);
