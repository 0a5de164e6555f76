// Lines to publish, and what a stream gives of them.

import { isGap, type AnyEvent, type EventStream, type Gap } from "../src/index.js";

export const CALL = JSON.stringify({
  type: "assistant",
  message: {
    id: "m1",
    role: "assistant",
    content: [{ type: "tool_use", id: "c1", name: "Bash", input: { command: "exit 3" } }],
  },
  session_id: "one",
});
export const RESULT = JSON.stringify({
  type: "user",
  message: { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", is_error: true, content: "Exit code 3" }] },
  session_id: "one",
});

/** The items' texts; after each the next act, one after the other, while the loop waits for the next item. */
export async function texts(stream: EventStream, count = Infinity, ...acts: (() => Promise<void>)[]): Promise<string[]> {
  const found: string[] = [];
  let done = Promise.resolve();
  for await (const item of stream) {
    found.push(textOf(item));
    if (found.length === count) {
      break;
    }
    const act = acts.shift();
    if (act) {
      done = done.then(act);
    }
  }
  await done;
  return found;
}

export function textOf(item: AnyEvent | Gap): string {
  if (isGap(item)) {
    return `${item.from}..${item.to} ${item.reason}`;
  }
  return "text" in item ? item.text : item.kind;
}
