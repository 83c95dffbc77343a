// Completing, abandoning, deferring, dead-lettering, locks, receive-and-delete, subscribing.
const { assert, check, closing, fresh, run } = require("./harness.cjs");
const { bodies, client, deadLetters, pause, queue, rest, take } = require("./bus.cjs");

async function one(kind, message = { body: "m" }, options = {}) {
  const made = queue(kind, options);
  await made.sender.sendMessages(message);
  const [got] = await take(made.receiver, 1);
  return { ...made, got };
}

check("a completed message is gone", async () => {
  const { receiver, got } = await one();
  await receiver.completeMessage(got);
  assert.deepEqual(await receiver.peekMessages(1), []);
});

check("a message cannot be completed twice", async () => {
  const { receiver, got } = await one();
  await receiver.completeMessage(got);
  await assert.rejects(receiver.completeMessage(got));
});

check("an abandoned message comes back and is counted", async () => {
  const { receiver, got } = await one();
  assert.equal(got.deliveryCount, 0);
  await receiver.abandonMessage(got);
  const [again] = await take(receiver, 1);
  assert.equal(again.deliveryCount, 1);
});

check("abandoning reaches the most deliveries", async () => {
  const { name, receiver, got } = await one("thrice");
  await receiver.abandonMessage(got);
  for (let n = 0; n < 2; n++) await receiver.abandonMessage((await take(receiver, 1))[0]);
  assert.deepEqual(await rest(receiver), []);
  const [dead] = await take(deadLetters(name), 1);
  assert.equal(dead.deadLetterReason, "MaxDeliveryCountExceeded");
});

check("abandoning changes properties", async () => {
  const { receiver, got } = await one("plain", { body: 1, applicationProperties: { a: 1, b: "b" } });
  await receiver.abandonMessage(got, { a: 2, c: true });
  const [again] = await take(receiver, 1);
  assert.deepEqual(again.applicationProperties, { a: 2, b: "b", c: true });
  assert.equal(again.body, 1);
});

check("a dead letter has its reason and description", async () => {
  const { name, receiver, got } = await one();
  await receiver.deadLetterMessage(got, { deadLetterReason: "why", deadLetterErrorDescription: "because" });
  const [dead] = await take(deadLetters(name), 1);
  assert.deepEqual([dead.body, dead.deadLetterReason, dead.deadLetterErrorDescription], ["m", "why", "because"]);
});

check("a dead letter has the properties that its receiver gave it", async () => {
  const { name, receiver, got } = await one("plain", { body: 1, applicationProperties: { old: "o" } });
  await receiver.deadLetterMessage(got, { deadLetterReason: "why", attempt: 3, mine: "yes" });
  const [dead] = await take(deadLetters(name), 1);
  const { old, attempt, mine } = dead.applicationProperties;
  assert.deepEqual([old, attempt, mine], ["o", 3, "yes"]);
});

check("a dead letter without a note has none", async () => {
  const { name, receiver, got } = await one();
  await receiver.deadLetterMessage(got);
  const [dead] = await take(deadLetters(name), 1);
  assert.equal(dead.deadLetterReason, undefined);
});

check("a dead letter keeps its sequence number and id", async () => {
  const { name, receiver, got } = await one();
  await receiver.deadLetterMessage(got);
  const [dead] = await take(deadLetters(name), 1);
  assert.equal(dead.messageId, got.messageId);
  assert.ok(dead.sequenceNumber.equals(got.sequenceNumber));
});

check("a dead letter is completed in its sub-queue", async () => {
  const { name, receiver, got } = await one();
  await receiver.deadLetterMessage(got);
  const dead = deadLetters(name);
  await dead.completeMessage((await take(dead, 1))[0]);
  assert.deepEqual(await dead.peekMessages(1), []);
});

check("a dead letter's sub-queue can be peeked", async () => {
  const { name, receiver, got } = await one();
  await receiver.deadLetterMessage(got);
  assert.deepEqual(bodies(await deadLetters(name).peekMessages(1)), ["m"]);
});

check("the sub-queue of failed forwarding is there and empty", async () => {
  assert.deepEqual(await rest(deadLetters(fresh("plain"), "transferDeadLetter")), []);
});

check("an expired message is dead-lettered where the queue says so", async () => {
  const { name, sender } = queue("buried");
  await sender.sendMessages({ body: "old", timeToLive: 100 });
  await pause(400);
  const [dead] = await take(deadLetters(name), 1);
  assert.equal(dead.deadLetterReason, "TTLExpiredException");
});

check("a deferred message comes by its number only", async () => {
  const { receiver, got } = await one();
  await receiver.deferMessage(got);
  assert.deepEqual(await rest(receiver), []);
  const [again] = await receiver.receiveDeferredMessages(got.sequenceNumber);
  assert.equal(again.body, "m");
  await receiver.completeMessage(again);
  assert.deepEqual(await receiver.peekMessages(1), []);
});

check("a deferred message shows its state to who peeks", async () => {
  const { receiver, got } = await one();
  await receiver.deferMessage(got);
  assert.equal((await receiver.peekMessages(1))[0].state, "deferred");
});

check("deferring changes properties", async () => {
  const { receiver, got } = await one();
  await receiver.deferMessage(got, { later: 1 });
  const [again] = await receiver.receiveDeferredMessages(got.sequenceNumber);
  assert.equal(again.applicationProperties.later, 1);
});

check("several deferred messages come together", async () => {
  const { sender, receiver } = queue();
  await sender.sendMessages([{ body: 1 }, { body: 2 }]);
  const both = await take(receiver, 2);
  for (const message of both) await receiver.deferMessage(message);
  const again = await receiver.receiveDeferredMessages(both.map((message) => message.sequenceNumber));
  assert.deepEqual(bodies(again), [1, 2]);
});

check("an unknown deferred message is not found", async () => {
  const { receiver, got } = await one();
  await assert.rejects(receiver.receiveDeferredMessages(got.sequenceNumber.add(99)), { code: "MessageNotFound" });
});

check("a locked deferred message is not given twice", async () => {
  const { receiver, got } = await one();
  await receiver.deferMessage(got);
  await receiver.receiveDeferredMessages(got.sequenceNumber);
  await assert.rejects(receiver.receiveDeferredMessages(got.sequenceNumber), { code: "MessageNotFound" });
});

check("an abandoned deferred message stays deferred", async () => {
  const { receiver, got } = await one();
  await receiver.deferMessage(got);
  const [again] = await receiver.receiveDeferredMessages(got.sequenceNumber);
  await receiver.abandonMessage(again);
  assert.deepEqual(await rest(receiver), []);
  assert.equal((await receiver.receiveDeferredMessages(got.sequenceNumber))[0].deliveryCount, 1);
});

check("a deferred message can be dead-lettered", async () => {
  const { name, receiver, got } = await one();
  await receiver.deferMessage(got);
  const [again] = await receiver.receiveDeferredMessages(got.sequenceNumber);
  await receiver.deadLetterMessage(again, { deadLetterReason: "late" });
  assert.equal((await take(deadLetters(name), 1))[0].deadLetterReason, "late");
});

check("a deferred message is gone when it is received and deleted", async () => {
  const { name, receiver, got } = await one();
  await receiver.deferMessage(got);
  const deleting = closing(client.createReceiver(name, { receiveMode: "receiveAndDelete" }));
  assert.deepEqual(bodies(await deleting.receiveDeferredMessages(got.sequenceNumber)), ["m"]);
  assert.deepEqual(await receiver.peekMessages(1), []);
});

check("a lock is renewed", async () => {
  const { receiver, got } = await one();
  const before = got.lockedUntilUtc.getTime();
  await pause(50);
  assert.ok((await receiver.renewMessageLock(got)).getTime() > before);
});

check("a lost lock is told", async () => {
  const { receiver, got } = await one("hasty", { body: "m" }, { maxAutoLockRenewalDurationInMs: 0 });
  await pause(5_400);
  await assert.rejects(receiver.renewMessageLock(got), { code: "MessageLockLost" });
});

check("a message whose lock is lost comes back, counted", async () => {
  const { name } = await one("hasty", { body: "m" }, { maxAutoLockRenewalDurationInMs: 0 });
  const other = closing(client.createReceiver(name));
  await pause(5_400);
  assert.equal((await take(other, 1))[0].deliveryCount, 1);
});

check("receive-and-delete takes a message for good", async () => {
  const { name, sender, receiver } = queue("plain", { receiveMode: "receiveAndDelete" });
  await sender.sendMessages({ body: "gone" });
  assert.deepEqual(bodies(await take(receiver, 1)), ["gone"]);
  assert.deepEqual(await closing(client.createReceiver(name)).peekMessages(1), []);
});

check("a subscriber completes what it handled", async () => {
  const { name, sender } = queue();
  await sender.sendMessages([{ body: 1 }, { body: 2 }, { body: 3 }]);
  const receiver = closing(client.createReceiver(name));
  const seen = [];
  await new Promise((done, fail) => {
    receiver.subscribe({
      processMessage: async (message) => {
        seen.push(message.body);
        if (seen.length === 3) done();
      },
      processError: async ({ error }) => fail(error),
    });
  });
  await pause(200);
  assert.deepEqual(seen, [1, 2, 3]);
  assert.deepEqual(await receiver.peekMessages(1), []);
});

check("a subscriber that fails gets its message again", async () => {
  const { name, sender } = queue();
  await sender.sendMessages({ body: 1 });
  const receiver = closing(client.createReceiver(name));
  const counts = [];
  await new Promise((done) => {
    receiver.subscribe({
      processMessage: async (message) => {
        counts.push(message.deliveryCount);
        if (counts.length === 1) throw new Error("on purpose");
        done();
      },
      processError: async () => {},
    });
  });
  assert.deepEqual(counts, [0, 1]);
});

run();
