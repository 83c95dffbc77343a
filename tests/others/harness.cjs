// Runs the checks of one file one after another and prints each outcome as a line of JSON, for the Python test to read.
const assert = require("node:assert/strict");

const TIME_LIMIT = 40_000;
const settings = JSON.parse(process.env.TOLD_TO_OTHERS);
const checks = [];
const used = {};
const opened = [];

function check(name, run) {
  checks.push({ name, run });
}

// Names an entity that no other check of this file has.
function fresh(kind) {
  used[kind] = (used[kind] ?? -1) + 1;
  assert.ok(used[kind] < settings.copies, `too few entities of kind ${kind}`);
  return `${settings.area}-${kind}-${used[kind]}`;
}

// Has something closed at the end of the check that opened it.
function closing(resource) {
  opened.push(resource);
  return resource;
}

async function outcome(one) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${TIME_LIMIT} ms`)), TIME_LIMIT);
  });
  try {
    await Promise.race([one.run(), late]);
    return { name: one.name, fault: "" };
  } catch (error) {
    return { name: one.name, fault: `${error.code ?? error.name}: ${error.message}`.slice(0, 400) };
  } finally {
    clearTimeout(timer);
    await Promise.allSettled(opened.splice(0).map((resource) => resource.close()));
  }
}

async function run() {
  for (const one of checks) {
    console.log(JSON.stringify(await outcome(one)));
  }
  process.exit(0);
}

module.exports = { assert, check, closing, fresh, run, settings };
