// Entities, their settings and their counts, as the administration client reads them.
const { ServiceBusClient, ServiceBusAdministrationClient } = require("@azure/service-bus");
const { assert, check, closing, fresh, run, settings } = require("./harness.cjs");
const { take } = require("./bus.cjs");

const administration = new ServiceBusAdministrationClient(settings.secure);
const bus = new ServiceBusClient(settings.secure, { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } });

async function all(listed) {
  const found = [];
  for await (const one of listed) found.push(one);
  return found;
}

check("every queue is listed", async () => {
  const found = await all(administration.listQueues());
  assert.equal(found.length, settings.queues);
  assert.equal(new Set(found.map((one) => one.name)).size, settings.queues);
});

check("queues come in pages of the size that is asked for", async () => {
  for await (const page of administration.listQueues().byPage({ maxPageSize: 7 })) {
    assert.equal(page.length, 7);
    break;
  }
});

check("a queue says how it is set", async () => {
  const { lockDuration, maxDeliveryCount, requiresSession, status } = await administration.getQueue(fresh("hasty-sessions"));
  assert.deepEqual([lockDuration, maxDeliveryCount, requiresSession, status], ["PT5S", 10, true, "Active"]);
});

check("a queue's duplicate window is told", async () => {
  const found = await administration.getQueue(fresh("unique"));
  assert.deepEqual([found.requiresDuplicateDetection, found.duplicateDetectionHistoryTimeWindow], [true, "PT1M"]);
});

check("a queue's messages are counted by what they wait for", async () => {
  const name = fresh("plain");
  const sender = closing(bus.createSender(name));
  const receiver = closing(bus.createReceiver(name));
  await sender.sendMessages([{ body: 1 }, { body: 2 }, { body: 3 }]);
  await sender.scheduleMessages({ body: 4 }, new Date(Date.now() + 60_000));
  await receiver.deadLetterMessage((await take(receiver, 1))[0]);
  const found = await administration.getQueueRuntimeProperties(name);
  assert.deepEqual(
    [found.activeMessageCount, found.deadLetterMessageCount, found.scheduledMessageCount, found.totalMessageCount],
    [2, 1, 1, 4],
  );
  assert.ok(found.sizeInBytes > 0);
});

check("the runtime properties of all queues are listed", async () => {
  const found = await all(administration.listQueuesRuntimeProperties());
  assert.equal(found.length, settings.queues);
});

check("topics are listed with their subscriptions", async () => {
  const topics = await all(administration.listTopics());
  assert.equal(topics.length, settings.topics);
  const found = await all(administration.listSubscriptions(topics[0].name));
  assert.deepEqual(found.map((one) => one.subscriptionName), settings.subscriptions);
  const { subscriptionCount } = await administration.getTopicRuntimeProperties(topics[0].name);
  assert.equal(subscriptionCount, settings.subscriptions.length);
});

check("a subscription's messages are counted", async () => {
  const topic = fresh("topic");
  await closing(bus.createSender(topic)).sendMessages([{ body: 1 }, { body: 2, applicationProperties: { kind: "red" } }]);
  const counted = async (name) =>
    (await administration.getSubscriptionRuntimeProperties(topic, name)).activeMessageCount;
  assert.deepEqual([await counted("everything"), await counted("red"), await counted("heavy")], [2, 1, 0]);
});

check("a subscription says how it is set", async () => {
  const found = await administration.getSubscription(fresh("topic"), "in-sessions");
  assert.deepEqual([found.subscriptionName, found.requiresSession, found.lockDuration], ["in-sessions", true, "PT1M"]);
});

check("rules are listed with their filters", async () => {
  const topic = fresh("topic");
  const [red] = await all(administration.listRules(topic, "red"));
  assert.deepEqual([red.name, red.filter.applicationProperties], ["$Default", { kind: "red" }]);
  const heavy = await administration.getRule(topic, "heavy", "$Default");
  assert.equal(heavy.filter.sqlExpression, "weight > 10");
});

check("a rule that a rule manager added is listed", async () => {
  const topic = fresh("topic");
  await bus.createRuleManager(topic, "everything").createRule("typed", { applicationProperties: { n: 7 } });
  const { filter } = await administration.getRule(topic, "everything", "typed");
  assert.deepEqual(filter.applicationProperties, { n: 7 });
});

check("the namespace is described", async () => {
  assert.equal((await administration.getNamespaceProperties()).messagingSku, "Standard");
});

check("what is not there is not found", async () => {
  const missing = { code: "MessageEntityNotFoundError" };
  await assert.rejects(administration.getQueue("nobody"), missing);
  await assert.rejects(administration.getSubscription(fresh("topic"), "nobody"), missing);
  assert.equal(await administration.queueExists("nobody"), false);
  assert.equal(await administration.queueExists(fresh("plain")), true);
});

check("a queue that is made is there with its settings, and is not there once it is removed", async () => {
  const made = { lockDuration: "PT5S", maxDeliveryCount: 3, requiresSession: true };
  await administration.createQueue("made", made);
  const { lockDuration, maxDeliveryCount, requiresSession } = await administration.getQueue("made");
  assert.deepEqual({ lockDuration, maxDeliveryCount, requiresSession }, made);
  await assert.rejects(administration.createQueue("made"), { code: "MessageEntityAlreadyExistsError" });
  await administration.deleteQueue("made");
  assert.equal(await administration.queueExists("made"), false);
});

check("a subscription that is made takes what its rule lets pass", async () => {
  await administration.createTopic("made-topic");
  await administration.createSubscription("made-topic", "red");
  await administration.deleteRule("made-topic", "red", "$Default");
  await administration.createRule("made-topic", "red", "only-red", { applicationProperties: { kind: "red" } });
  const sender = closing(bus.createSender("made-topic"));
  await sender.sendMessages([{ body: 1 }, { body: 2, applicationProperties: { kind: "red" } }]);
  const [{ body }, ...more] = await take(closing(bus.createReceiver("made-topic", "red")), 1);
  assert.deepEqual([body, more.length], [2, 0]);
  await administration.deleteTopic("made-topic");
  assert.equal(await administration.topicExists("made-topic"), false);
});

check("a setting that is not built is refused with the reason", async () => {
  await assert.rejects(administration.createQueue("new", { forwardTo: fresh("plain") }), /'ForwardTo' of an entity/);
  assert.equal(await administration.queueExists("new"), false);
});

run();
