// A door of the TypeScript client: subscribes from the start to the present end of the journal, and prints each event and
// gap as a line of JSON; an error becomes a line with `op` "error".
//   node door.mjs FOLDER '{"path": …}'          over the socket; FOLDER has the client, compiled
//   node door.mjs FOLDER '{"url": …}' <TOKEN    over HTTP
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, options] = [process.argv[2], JSON.parse(process.argv[3])];
const load = (name) => import(pathToFileURL(join(folder, "dist/src", name)).href);
const ended = new AbortController();
let watch;

async function open() {
  if (options.path !== undefined) {
    const { subscribe } = await load("index.js");
    return subscribe({ ...options, after: "start", follow: false, reconnect: false });
  }
  const { stats, subscribe } = await load("web.js");
  const gateway = { url: options.url, token: readFileSync(0, "utf8") };
  const { latest } = (await stats(gateway)).journal;
  const stream = subscribe({ ...options, ...gateway, after: "start", reconnect: false, signal: ended.signal });
  // Such a subscription has no end: it is over when its cursor is at the end of the journal.
  watch = setInterval(() => Number(stream.cursor?.split(":")[1] ?? -1) >= latest && ended.abort(), 5);
  return stream;
}

try {
  for await (const item of await open()) {
    console.log(JSON.stringify(item));
  }
} catch (error) {
  if (!ended.signal.aborted) {
    console.log(JSON.stringify({ op: "error", code: error.code ?? error.name, message: error.message }));
  }
} finally {
  clearInterval(watch);
}
