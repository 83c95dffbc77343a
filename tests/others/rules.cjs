// The rules of a subscription, changed while it is in use.
const { assert, check, closing, fresh, run } = require("./harness.cjs");
const { client, rest } = require("./bus.cjs");

function subscription() {
  const topic = fresh("topic");
  return {
    manager: client.createRuleManager(topic, "everything"),
    sender: closing(client.createSender(topic)),
    receiver: closing(client.createReceiver(topic, "everything")),
  };
}

async function listed(manager) {
  const found = [];
  for await (const rule of manager.listRules()) found.push(rule);
  // The SDK itself makes one undefined rule of an empty list.
  return found.filter((rule) => rule !== undefined);
}

const names = async (manager) => (await listed(manager)).map((rule) => rule.name);

check("a subscription without a filter has the rule $Default", async () => {
  const { manager } = subscription();
  assert.deepEqual(await listed(manager), [{ name: "$Default", filter: { sqlExpression: "1=1" }, action: {} }]);
});

check("a subscription's own filters are listed", async () => {
  const topic = fresh("topic");
  const red = client.createRuleManager(topic, "red");
  const heavy = client.createRuleManager(topic, "heavy");
  const [one] = await listed(red);
  assert.deepEqual([one.name, one.filter.applicationProperties], ["$Default", { kind: "red" }]);
  assert.deepEqual((await listed(heavy))[0].filter, { sqlExpression: "weight > 10" });
});

check("a rule is added and passes what it says", async () => {
  const { manager, sender, receiver } = subscription();
  await manager.deleteRule("$Default");
  await manager.createRule("blue", { applicationProperties: { kind: "blue" } });
  await sender.sendMessages(["red", "blue"].map((kind) => ({ body: kind, applicationProperties: { kind } })));
  assert.deepEqual(await rest(receiver), ["blue"]);
});

check("one of several rules is enough, and a message comes once", async () => {
  const { manager, sender, receiver } = subscription();
  await manager.deleteRule("$Default");
  await manager.createRule("light", { sqlExpression: "weight < 3" });
  await manager.createRule("odd", { sqlExpression: "weight IN (1, 3, 5)" });
  await sender.sendMessages([1, 2, 3, 4].map((weight) => ({ body: weight, applicationProperties: { weight } })));
  assert.deepEqual(await rest(receiver), [1, 2, 3]);
});

check("without any rule nothing passes", async () => {
  const { manager, sender, receiver } = subscription();
  await manager.deleteRule("$Default");
  assert.deepEqual(await names(manager), []);
  await sender.sendMessages({ body: 1 });
  assert.deepEqual(await rest(receiver), []);
});

check("a correlation filter knows every system property", async () => {
  const { manager, sender, receiver } = subscription();
  await manager.deleteRule("$Default");
  const filter = {
    correlationId: "c",
    messageId: "m",
    to: "t",
    replyTo: "r",
    subject: "s",
    sessionId: "i",
    replyToSessionId: "j",
    contentType: "text/plain",
  };
  await manager.createRule("all", filter);
  assert.deepEqual((await listed(manager))[0].filter, { ...filter, applicationProperties: {} });
  const others = Object.keys(filter).map((name) => ({ ...filter, [name]: "other", body: name }));
  await sender.sendMessages([...others, { ...filter, body: "fits" }]);
  assert.deepEqual(await rest(receiver), ["fits"]);
});

check("a filter's numbers and truths are compared by type", async () => {
  const { manager, sender, receiver } = subscription();
  await manager.deleteRule("$Default");
  await manager.createRule("typed", { applicationProperties: { n: 7, yes: true, part: 0.5 } });
  assert.deepEqual((await listed(manager))[0].filter.applicationProperties, { n: 7, yes: true, part: 0.5 });
  const fits = { n: 7, yes: true, part: 0.5 };
  const given = [fits, { ...fits, n: "7" }, { ...fits, yes: 1 }];
  await sender.sendMessages(given.map((applicationProperties, body) => ({ body, applicationProperties })));
  assert.deepEqual(await rest(receiver), [0]);
});

check("a rule's name is taken once", async () => {
  const { manager } = subscription();
  await assert.rejects(manager.createRule("$Default", { sqlExpression: "1=1" }), {
    code: "MessagingEntityAlreadyExists",
  });
});

check("an unknown rule cannot be deleted", async () => {
  await assert.rejects(subscription().manager.deleteRule("nobody"), { code: "MessagingEntityNotFound" });
});

check("rules come in pages", async () => {
  const { manager } = subscription();
  for (const name of ["a", "b"]) await manager.createRule(name, { sqlExpression: "1=0" });
  const pages = [];
  for await (const page of manager.listRules().byPage({ maxPageSize: 2 })) pages.push(page.map((rule) => rule.name));
  assert.deepEqual(pages, [["$Default", "a"], ["b"]]);
});

check("a filter that the stand-in does not know is refused by name", async () => {
  const { manager } = subscription();
  await assert.rejects(manager.createRule("like", { sqlExpression: "kind LIKE 'r%'" }), /does not do.*LIKE/);
  assert.deepEqual(await names(manager), ["$Default"]);
});

check("a rule's action is refused", async () => {
  const { manager } = subscription();
  const action = { sqlExpression: "SET kind = 'x'" };
  await assert.rejects(manager.createRule("acting", { sqlExpression: "1=1" }, action), /does not do rule actions/);
});

run();
