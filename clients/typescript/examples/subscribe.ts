// Prints every shell command of every agent on the machine, as it is run.
import { isCall, isGap, subscribe } from "tooltap-client";

for await (const event of subscribe({ after: "start" })) {
  if (isGap(event)) {
    console.log(`events ${event.from} to ${event.to} are gone`);
  } else if (isCall(event, "Bash")) {
    console.log(event.provider, event.input.command);
  }
}
