// The same over HTTP, as a page does it: 
//   TOKEN=$(tooltap serve token) node dist/examples/web.js http://127.0.0.1:8422
// The token is no argument, because other users of the machine can read command lines.
import { isCall, isGap, subscribe } from "tooltap-client/web";

const gateway = { url: process.argv[2]!, token: process.env.TOKEN! };

for await (const event of subscribe({ ...gateway, after: "start" })) {
  if (isGap(event)) {
    console.log(`events ${event.from} to ${event.to} are gone`);
  } else if (isCall(event, "Bash")) {
    console.log(event.provider, event.input.command);
  }
}
