// Type guards for the items of a stream.

import type { AnyEvent, Gap, ToolCall, ToolResult, Tools } from "./schema.js";

export function isGap(item: object): item is Gap {
  return "op" in item;
}

/** A call of this tool, with its `input` typed. */
export function isCall<Name extends keyof Tools>(
  item: AnyEvent | Gap,
  name: Name,
): item is ToolCall & { name: Name; input: Tools[Name]["input"] } {
  return "kind" in item && item.kind === "tool-call" && item.name === name;
}

/** A result of this tool, with its `output` typed. */
export function isResult<Name extends keyof Tools>(
  item: AnyEvent | Gap,
  name: Name,
): item is ToolResult & { name: Name; output: Tools[Name]["output"] } {
  return "kind" in item && item.kind === "tool-result" && item.name === name;
}
