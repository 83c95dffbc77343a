// Finds one document by the best of its indexes. Azurite itself takes the first property of a query: for a row that is
// its partition, for a blob its account. So it walks through all of them, and Azure does not. What is found is the same.
"use strict";
const Loki = require(require.resolve("lokijs", { paths: [process.argv[1]] }));
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
