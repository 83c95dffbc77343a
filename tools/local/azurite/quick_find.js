// What the local stack changes in Azurite: what it loads, how it takes connections, how it finds documents, which messages
// it refuses, and when it ends.
//
// It finds documents by the best of their indexes. What is found is the same.
//
// One document: Azurite itself takes the first property of a query. For a row that is its partition, for a blob its
// account. So it walks through all of them, and Azure does not.
// Rows by a filter: Azurite asks every row of the table. Azure reads the partition that the filter names, and of that
// the keys that it names.
"use strict";
const fs = require("fs");
const http = require("http");
const https = require("https");
const net = require("net");
const path = require("path");
const Loki = require(require.resolve("lokijs", { paths: [process.argv[1]] }));

// Libraries of a database and of telemetry, which the launcher's command has off: half of the CPU of a start.
for (const [name, exports] of Object.entries({ sequelize: { Model: class {} }, applicationinsights: {} })) {
  try {
    const id = require.resolve(name, { paths: [process.argv[1]] });
    require.cache[id] = { id, filename: id, loaded: true, exports };
  } catch {
    // A script that is not Azurite has none.
  }
}

// Node takes one new connection of a port in each turn of its loop. A turn of a busy one answers every connection that it
// has, so the sixtieth new one waits for seconds. So a port that no one has chosen is listened to several times, and Linux
// deals the connections out. (Two programs could listen to a chosen one by this.)
const LISTENERS = 16;
const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (port, host, ready, ...rest) {
  if (port !== 0 || !(this instanceof http.Server || this instanceof https.Server) || process.platform !== "linux") {
    return listen.call(this, port, host, ready, ...rest);
  }
  const others = [];
  this.once("close", () => others.forEach((other) => other.close()));
  return listen.call(this, { port, host, reusePort: true }, async () => {
    for (let number = 1; number < LISTENERS; number++) {
      const other = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.emit("connection", socket));
      others.push(other);
      await new Promise((resolve) => listen.call(other, { port: this.address().port, host, reusePort: true }, resolve));
    }
    ready();
  });
};

const prototype = Loki.Collection.prototype;
const findOne = prototype.findOne;

prototype.findOne = function (query) {
  const names = Object.keys(query || {});
  const indexed = names.filter((name) => this.binaryIndices[name]);
  // Texts alone are compared as the index sorts them, and Azurite wants the document itself.
  if (indexed.length < 2 || this.cloneObjects || names.some((name) => typeof query[name] !== "string")) {
    return findOne.call(this, query);
  }
  let best;
  for (const name of indexed) {
    this.ensureIndex(name);
    const [first, last] = this.calculateRange("$eq", name, query[name]);
    if (best === undefined || last - first < best.last - best.first) {
      best = { values: this.binaryIndices[name].values, first, last };
    }
  }
  for (let position = best.first; position <= best.last; position++) {
    const found = this.data[best.values[position]];
    if (names.every((name) => found[name] === query[name])) {
      return found;
    }
  }
  return null;
};

// The partition of a filter, and the range of its keys, if all its conditions must hold together.
function keysOf(filter) {
  const bare = (filter || "").replace(/'(?:[^']|'')*'/g, "''");
  if (/[()]|\b(?:or|not)\b/i.test(bare)) {
    return undefined;
  }
  const value = (name, operators) => {
    const found = new RegExp(`(?:^|\\sand\\s+)${name}\\s+(?:${operators})\\s+'((?:[^']|'')*)'`).exec(filter);
    return found ? found[1].replace(/''/g, "'") : undefined;
  };
  const partition = value("PartitionKey", "eq");
  return partition === undefined
    ? undefined
    : { partition, low: value("RowKey", "ge|gt"), high: value("RowKey", "le|lt") };
}

// Texts that are numbers sort before all others in the index, and in Azure by their characters. No number begins like
// these, so here both orders are the same.
function isInOrder(low, high) {
  return low !== undefined && high !== undefined && low[0] >= "a" && high[0] <= "~" && high[0] >= "a";
}

const file = path.join(path.dirname(process.argv[1]), "table", "persistence", "LokiTableStoreQueryGenerator.js");
// A script that is not Azurite has none.
if (fs.existsSync(file)) {
  const generator = require(file).default;
  const generate = generator.generateQueryForPersistenceLayer;
  generator.generateQueryForPersistenceLayer = function (options, context) {
    const decide = generate.call(this, options, context);
    const keys = keysOf(options.filter);
    // A function of its own: some filters share one.
    return keys ? Object.assign((row) => decide(row), { keys }) : decide;
  };
}

const where = Loki.Resultset.prototype.where;

Loki.Resultset.prototype.where = function (decide, ...more) {
  const { collection } = this;
  const indices = collection.binaryIndices;
  if (decide.keys && !this.filterInitialized && indices.PartitionKey && indices.RowKey) {
    const { partition, low, high } = decide.keys;
    collection.ensureIndex("PartitionKey");
    let [name, [first, last]] = ["PartitionKey", collection.calculateRange("$eq", "PartitionKey", partition)];
    if (isInOrder(low, high)) {
      collection.ensureIndex("RowKey");
      const [lowest, highest] = collection.calculateRange("$between", "RowKey", [low, high]);
      if (highest - lowest < last - first) {
        [name, first, last] = ["RowKey", lowest, highest];
      }
    }
    this.filteredrows = indices[name].values.slice(first, last + 1);
    this.filterInitialized = true;
  }
  return where.call(this, decide, ...more);
};

// Texts of messages. XML has no place for some characters, so Azure refuses a message with one. Azurite takes it, and then
// answers 500 to each receive that it is part of, so that its neighbours are stuck too.
const refused = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\uD800-\uDFFF\uFFFE\uFFFF]/u;
const queue = path.join(path.dirname(process.argv[1]), "queue");

function refuseTexts(file, method) {
  if (!fs.existsSync(path.join(queue, "handlers", file))) {
    return;
  }
  const errors = require(path.join(queue, "errors", "StorageErrorFactory.js")).default;
  const handler = require(path.join(queue, "handlers", file)).default.prototype;
  const act = handler[method];
  handler[method] = async function (...given) {
    const context = given[given.length - 1];
    // Azurite has not read a text of blanks alone yet, and some of these characters are blanks for it.
    if (refused.test(given[0].messageText || context.request.getBody() || "")) {
      throw errors.getInvalidXmlDocument(context.contextID);
    }
    return act.apply(this, given);
  };
}

refuseTexts("MessagesHandler.js", "enqueue");
refuseTexts("MessageIdHandler.js", "update");

// The stack that started it holds the other end. Where the stack was killed, nothing else would end Azurite.
if (process.env.AZURITE_ENDS_WITH_STDIN) {
  process.stdin.on("end", () => process.kill(process.pid, "SIGTERM")).resume();
  // At its end Azurite closes its servers and waits for the rest, which this is not.
  process.stdin.unref();
}
