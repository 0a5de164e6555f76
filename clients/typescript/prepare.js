// Builds the package. `npm install <folder>` links the folder into a project and runs this, but installs no compiler.

import { execSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const run = (command) => execSync(command, { cwd: fileURLToPath(new URL(".", import.meta.url)), stdio: ["ignore", 2, 2] });

if (!existsSync(new URL("node_modules/typescript", import.meta.url))) run("npm ci --ignore-scripts --no-fund --no-audit");
run("npx --no-install tsc");
