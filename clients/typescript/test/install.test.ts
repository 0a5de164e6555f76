// The package works in a project into which `npm install <folder>` has put it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const PACKAGE = process.cwd(); // where npm runs the tests

test("a project imports the package from its folder", () => {
  const project = mkdtempSync(join(tmpdir(), "tooltap-"));
  try {
    writeFileSync(join(project, "package.json"), '{"type":"module"}');
    execFileSync("npm", ["install", "--no-fund", "--no-audit", PACKAGE], { cwd: project, stdio: "ignore" });
    const program = 'import { isGap } from "tooltap-client"; import { subscribe } from "tooltap-client/web"; console.log(typeof isGap, typeof subscribe)';
    const printed = execFileSync("node", ["--input-type=module", "--eval", program], { cwd: project, encoding: "utf8" });
    assert.equal(printed, "function function\n");
  } finally {
    rmSync(project, { recursive: true });
  }
});
