// Runs the core in node: `node run.mjs vmfkit_wasm_test.wasm`.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

// No imports: the core needs neither a clock nor randomness nor threads from outside.
const { instance } = await WebAssembly.instantiate(await readFile(process.argv[2]), {});
assert.equal(instance.exports.address_bits(), 32);
for (const dim of [3, 20, 100]) {
  const angle = instance.exports.largest_angle(dim);
  console.log(`dimension ${dim}: every method finds all mean directions to ${((angle * 180) / Math.PI).toFixed(2)} degrees`);
  assert.ok(angle < 0.05, `dimension ${dim}: ${angle}`);
}
