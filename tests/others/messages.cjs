// Sending, batches, properties, peeking, schedules.
const { assert, check, closing, run } = require("./harness.cjs");
const { bodies, client, pause, queue, rest, take } = require("./bus.cjs");

check("an array of two arrives as two messages", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages([{ body: "a" }, { body: "b" }]);
  assert.deepEqual(bodies(await take(receiver, 2)), ["a", "b"]);
});

check("a batch of fifty with properties arrives as fifty", async () => {
  const { sender, receiver } = queue();
  const batch = await sender.createMessageBatch();
  for (let n = 0; n < 50; n++) assert.ok(batch.tryAddMessage({ body: n, applicationProperties: { n } }));
  await sender.sendMessages(batch);
  const got = await take(receiver, 50);
  assert.deepEqual(got.map((one) => one.applicationProperties.n), [...Array(50).keys()]);
});

check("a batch keeps the ids of its messages", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages([{ body: 1, messageId: "x" }, { body: 2, messageId: "y" }]);
  assert.deepEqual((await take(receiver, 2)).map((one) => one.messageId), ["x", "y"]);
});

check("a batch of one is one message", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages([{ body: "only" }]);
  assert.deepEqual(bodies(await take(receiver, 1)), ["only"]);
  assert.deepEqual(await rest(receiver), []);
});

check("a batch refuses a message that does not fit", async () => {
  const { sender } = queue();
  const batch = await sender.createMessageBatch();
  assert.equal(batch.tryAddMessage({ body: Buffer.alloc(300_000) }), false);
});

check("a batch ends at 256 KB", async () => {
  const { sender } = queue();
  assert.equal((await sender.createMessageBatch()).maxSizeInBytes, 262_144);
});

check("too large a message is refused", async () => {
  const { sender, receiver } = queue();
  await assert.rejects(sender.sendMessages({ body: Buffer.alloc(300_000) }), { code: "MessageSizeExceeded" });
  assert.deepEqual(await rest(receiver), []);
});

check("a message without an id gets one, and each another", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages([{ body: 1 }, { body: 2 }]);
  await sender.sendMessages({ body: 3 });
  const ids = (await take(receiver, 3)).map((one) => one.messageId);
  assert.equal(new Set(ids).size, 3);
  ids.forEach((id) => assert.ok(id));
});

check("a message's own id stays", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages({ body: 1, messageId: "mine" });
  assert.equal((await take(receiver, 1))[0].messageId, "mine");
});

check("a scheduled message without an id gets one", async () => {
  const { sender, receiver } = queue();
  await sender.scheduleMessages({ body: 1 }, new Date(Date.now() + 300));
  assert.ok((await take(receiver, 1))[0].messageId);
});

check("an id does not push other properties aside", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages({ body: 1, subject: "s", correlationId: "c", to: "t", replyTo: "r", contentType: "text/plain" });
  const [got] = await take(receiver, 1);
  const { subject, correlationId, to, replyTo, contentType } = got;
  assert.deepEqual([subject, correlationId, to, replyTo, contentType], ["s", "c", "t", "r", "text/plain"]);
});

for (const [kind, body] of Object.entries({
  text: "é",
  number: 1.5,
  object: { a: [1, { b: null }] },
  list: [1, "two"],
  truth: true,
  nothing: null,
})) {
  check(`a body of kind ${kind} comes back`, async () => {
    const { sender, receiver } = queue();
    await sender.sendMessages({ body });
    assert.deepEqual((await take(receiver, 1))[0].body, body);
  });
}

check("bytes come back", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages({ body: Buffer.from([0, 255, 0x53]) });
  assert.deepEqual([...(await take(receiver, 1))[0].body], [0, 255, 0x53]);
});

check("application properties keep their types", async () => {
  const { sender, receiver } = queue();
  const applicationProperties = { text: "t", whole: 7, part: 0.5, yes: true, no: false };
  await sender.sendMessages({ body: 1, applicationProperties });
  assert.deepEqual((await take(receiver, 1))[0].applicationProperties, applicationProperties);
});

check("a message has a sequence number and a time of arrival", async () => {
  const { sender, receiver } = queue();
  const before = Date.now();
  await sender.sendMessages([{ body: 1 }, { body: 2 }]);
  const [one, two] = await take(receiver, 2);
  assert.ok(two.sequenceNumber.greaterThan(one.sequenceNumber));
  assert.ok(Math.abs(one.enqueuedTimeUtc.getTime() - before) < 10_000);
});

check("a message has its lock, as token and as annotation", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages({ body: 1 });
  const [got] = await take(receiver, 1);
  assert.match(got.lockToken, /^[0-9a-f]{8}-/);
  assert.ok(got.lockedUntilUtc.getTime() > Date.now());
  assert.ok(got._rawAmqpMessage.deliveryAnnotations["x-opt-lock-token"]);
});

check("an expired message is gone", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages({ body: 1, timeToLive: 200 });
  await pause(600);
  assert.deepEqual(await rest(receiver), []);
});

check("a repeated id is dropped where duplicates are detected", async () => {
  const { sender, receiver } = queue("unique");
  await sender.sendMessages([{ body: 1, messageId: "x" }, { body: 2, messageId: "x" }]);
  await sender.sendMessages({ body: 3, messageId: "x" });
  assert.deepEqual(await rest(receiver), [1]);
});

check("messages without an id are no duplicates", async () => {
  const { sender, receiver } = queue("unique");
  await sender.sendMessages([{ body: 1 }, { body: 2 }]);
  assert.deepEqual(bodies(await take(receiver, 2)), [1, 2]);
});

check("peeking shows messages and takes none", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages([{ body: 1 }, { body: 2 }, { body: 3 }]);
  assert.deepEqual(bodies(await receiver.peekMessages(2)), [1, 2]);
  assert.deepEqual(bodies(await receiver.peekMessages(2)), [3]);
  assert.deepEqual(bodies(await take(receiver, 3)), [1, 2, 3]);
});

check("peeking begins at a sequence number", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages([{ body: 1 }, { body: 2 }, { body: 3 }]);
  const all = await receiver.peekMessages(3);
  const some = await receiver.peekMessages(5, { fromSequenceNumber: all[1].sequenceNumber });
  assert.deepEqual(bodies(some), [2, 3]);
});

check("peeking an empty queue shows nothing", async () => {
  assert.deepEqual(await queue().receiver.peekMessages(5), []);
});

check("a scheduled message comes at its time", async () => {
  const { sender, receiver } = queue();
  await sender.scheduleMessages([{ body: "later" }], new Date(Date.now() + 900));
  assert.deepEqual(await rest(receiver), []);
  assert.deepEqual(bodies(await take(receiver, 1)), ["later"]);
});

check("a scheduled message shows its state to who peeks", async () => {
  const { sender, receiver } = queue();
  await sender.scheduleMessages({ body: 1 }, new Date(Date.now() + 60_000));
  assert.equal((await receiver.peekMessages(1))[0].state, "scheduled");
});

check("a cancelled message never comes", async () => {
  const { sender, receiver } = queue();
  const numbers = await sender.scheduleMessages([{ body: 1 }, { body: 2 }], new Date(Date.now() + 500));
  await sender.cancelScheduledMessages(numbers[0]);
  assert.deepEqual(bodies(await take(receiver, 1)), [2]);
  assert.deepEqual(await rest(receiver), []);
});

check("a cancelled message cannot be cancelled again", async () => {
  const { sender } = queue();
  const [number] = await sender.scheduleMessages({ body: 1 }, new Date(Date.now() + 60_000));
  await sender.cancelScheduledMessages(number);
  await assert.rejects(sender.cancelScheduledMessages(number), { code: "MessageNotFound" });
});

check("scheduledEnqueueTimeUtc on a message is kept", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages({ body: 1, scheduledEnqueueTimeUtc: new Date(Date.now() + 900) });
  assert.deepEqual(await rest(receiver), []);
  assert.deepEqual(bodies(await take(receiver, 1)), [1]);
});

check("an unknown queue is named", async () => {
  const sender = closing(client.createSender("nowhere"));
  await assert.rejects(sender.sendMessages({ body: 1 }), /nowhere/);
});

run();
