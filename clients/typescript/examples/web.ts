// The same over HTTP, as a page does it: node dist/examples/web.js "$(tooltap serve link)"
import { isCall, isGap, subscribe } from "tooltap-client/web";

const link = new URL(process.argv[2]!);
const gateway = { url: link.origin, token: link.searchParams.get("token")! };

for await (const event of subscribe({ ...gateway, after: "start" })) {
  if (isGap(event)) {
    console.log(`events ${event.from} to ${event.to} are gone`);
  } else if (isCall(event, "Bash")) {
    console.log(event.provider, event.input.command);
  }
}
