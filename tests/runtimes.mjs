// A program that uses the installed client: node runtimes.mjs SOCKET URL, with the token on stdin; see runtimes.py.

import { request, subscribe } from "tooltap-client";
import { subscribe as subscribeWeb } from "tooltap-client/web";

const [path, url] = process.argv.slice(2);
let token = "";
for await (const part of process.stdin) token += part;
const found = { socket: [], web: [] };
for await (const event of subscribe({ path, after: "start", follow: false })) found.socket.push(event.eventId);
for await (const event of subscribeWeb({ url, token: token.trim(), after: "start" })) {
  found.web.push(event.eventId);
  if (found.web.length === found.socket.length) break;
}
found.sessions = (await request({ op: "sessions" }, { path })).sessions.length;
console.log(JSON.stringify(found));
