// Topics, their filters, and what happens to a message without a session there.
const { assert, check, closing, fresh, run } = require("./harness.cjs");
const { bodies, client, rest, take } = require("./bus.cjs");

async function sent(...messages) {
  const topic = fresh("topic");
  await closing(client.createSender(topic)).sendMessages(messages);
  return (subscription, options) => closing(client.createReceiver(topic, subscription, options));
}

check("each subscription gets a copy", async () => {
  const from = await sent({ body: 1 }, { body: 2 });
  assert.deepEqual(bodies(await take(from("everything"), 2)), [1, 2]);
  assert.deepEqual(bodies(await take(from("everything-too"), 2)), [1, 2]);
});

check("a correlation filter passes its kind", async () => {
  const properties = (kind) => ({ body: kind, applicationProperties: { kind } });
  assert.deepEqual(await rest((await sent(properties("red"), properties("blue")))("red")), ["red"]);
});

check("a filter on the subject passes it", async () => {
  assert.deepEqual(await rest((await sent({ body: 1, subject: "urgent" }, { body: 2 }))("urgent")), [1]);
});

check("a SQL filter passes what it says", async () => {
  const weight = (number) => ({ body: number, applicationProperties: { weight: number } });
  assert.deepEqual(await rest((await sent(weight(5), weight(15)))("heavy")), [15]);
});

check("the copies have one id, also where the sender gave none", async () => {
  const from = await sent({ body: 1 });
  const [one] = await take(from("everything"), 1);
  const [two] = await take(from("everything-too"), 1);
  assert.ok(one.messageId);
  assert.equal(one.messageId, two.messageId);
});

check("a subscription has dead letters of its own", async () => {
  const from = await sent({ body: 1 });
  const receiver = from("everything");
  await receiver.deadLetterMessage((await take(receiver, 1))[0], { deadLetterReason: "why" });
  assert.equal((await take(from("everything", { subQueueType: "deadLetter" }), 1))[0].deadLetterReason, "why");
  assert.deepEqual(await rest(from("everything-too")), [1]);
});

check("a message without a session is dead-lettered by a subscription with sessions", async () => {
  const from = await sent({ body: 1 });
  const [dead] = await take(from("in-sessions", { subQueueType: "deadLetter" }), 1);
  assert.equal(dead.deadLetterReason, "Session id is null.");
});

check("a deferred message of a subscription comes by its number", async () => {
  const receiver = (await sent({ body: 1 }))("everything");
  const [got] = await take(receiver, 1);
  await receiver.deferMessage(got);
  assert.deepEqual(bodies(await receiver.receiveDeferredMessages(got.sequenceNumber)), [1]);
});

run();
