// The published JSON Schema, as a strict validator of another language reads it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Ajv2020 } from "ajv/dist/2020.js";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const schema = JSON.parse(readFileSync(`${root}docs/schema.json`, "utf8"));
/** An unknown keyword, a type that is not stated, a required key that is not described are errors. */
const ajv = new Ajv2020({ strict: true });
const isEvent = ajv.compile(schema);

test("every definition compiles in strict mode", () => {
  const names = Object.keys(schema.$defs);

  assert.ok(names.length > 100);
  for (const name of names) {
    ajv.compile({ $ref: `${schema.$id}#/$defs/${name}` });
  }
});

test("the schema says what it is, and of which version", () => {
  assert.equal(schema.$schema, "https://json-schema.org/draft/2020-12/schema");
  assert.match(schema.$id, /^urn:tooltap:schema:\d+$/);
  assert.match(schema.title, /schema \d+.*protocol \d+/);
});

test("recorded events of all agents are valid, and partials are", () => {
  const command = ["normalize", "--partials", `${root}tests/fixtures`];
  const lines = execFileSync("tooltap", command, { encoding: "utf8", maxBuffer: 2 ** 28 }).trim().split("\n");
  const dialects = new Set<string>();
  let partials = 0;
  for (const line of lines) {
    const event: { dialect: string; partial?: boolean } = JSON.parse(line);
    const isValid: boolean = isEvent(event);
    assert.ok(isValid, `${ajv.errorsText(isEvent.errors)}: ${line.slice(0, 500)}`);
    dialects.add(event.dialect);
    partials += event.partial === true ? 1 : 0;
  }

  assert.ok(dialects.size > 50);
  assert.ok(partials > 100);
});

test("an event without its envelope is not valid, nor is one with a value of another type", () => {
  const envelope = { v: 2, id: "s:1:0", stream: "s", line: 1, session: "s", protocol: "p", provider: "p", dialect: "d" };
  const event = { kind: "reasoning", text: "t" };

  assert.equal(isEvent({ ...envelope, ...event }), true);
  assert.equal(isEvent(event), false);
  assert.equal(isEvent({ ...envelope, ...event, line: "1" }), false);
});
