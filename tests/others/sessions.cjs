// Sessions as a session client of JavaScript uses them.
const { assert, check, closing, fresh, run } = require("./harness.cjs");
const { bodies, client, pause, queue, rest, take } = require("./bus.cjs");

const accept = async (name, id, options) => closing(await client.acceptSession(name, id, options));
const acceptNext = async (name, options) => closing(await client.acceptNextSession(name, options));

async function sent(...messages) {
  const made = queue("sessions");
  await made.sender.sendMessages(messages.map(([sessionId, body]) => ({ sessionId, body })));
  return made;
}

check("a session is accepted by its id", async () => {
  const { name } = await sent(["a", 1], ["b", 2]);
  const session = await accept(name, "b");
  assert.equal(session.sessionId, "b");
  assert.deepEqual(bodies(await take(session, 1)), [2]);
});

check("a session without messages is accepted too", async () => {
  assert.equal((await accept(fresh("sessions"), "empty")).sessionId, "empty");
});

check("the next session is the one that has waited longest", async () => {
  const { name } = await sent(["a", 1], ["b", 2]);
  assert.equal((await acceptNext(name)).sessionId, "a");
  assert.equal((await acceptNext(name)).sessionId, "b");
});

check("a session keeps its order", async () => {
  const { name } = await sent(["a", 1], ["b", 9], ["a", 2], ["a", 3]);
  const session = await accept(name, "a");
  assert.deepEqual(bodies(await take(session, 3)), [1, 2, 3]);
});

check("a session is held by one", async () => {
  const name = fresh("sessions");
  await accept(name, "a");
  await assert.rejects(client.acceptSession(name, "a"), { code: "SessionCannotBeLocked" });
});

check("a closed session is free", async () => {
  const { name } = await sent(["a", 1]);
  const session = await client.acceptSession(name, "a");
  await session.close();
  assert.deepEqual(bodies(await take(await accept(name, "a"), 1)), [1]);
});

check("a message without a session is refused", async () => {
  const { sender } = queue("sessions");
  await assert.rejects(sender.sendMessages({ body: 1 }), /session/);
});

// The SDK itself takes an empty id for none when it accepts a session, so this one only looks.
check("an empty session id is an id", async () => {
  const { name } = await sent(["", "nameless"]);
  const [seen] = await closing(client.createReceiver(name)).peekMessages(1);
  assert.deepEqual([seen.body, seen.sessionId], ["nameless", ""]);
});

check("a session has a lock that is renewed", async () => {
  const session = await accept(fresh("sessions"), "a");
  const before = session.sessionLockedUntilUtc.getTime();
  assert.ok(before > Date.now());
  await pause(50);
  assert.ok((await session.renewSessionLock()).getTime() > before);
});

check("a session keeps a state", async () => {
  const name = fresh("sessions");
  const session = await client.acceptSession(name, "a");
  await session.setSessionState("so far");
  await session.close();
  assert.equal((await (await accept(name, "a")).getSessionState()).toString(), "so far");
});

check("a session's state is cleared", async () => {
  const session = await accept(fresh("sessions"), "a");
  await session.setSessionState("x");
  await session.setSessionState(null);
  assert.equal(await session.getSessionState(), null);
});

check("a session without state has none", async () => {
  assert.equal(await (await accept(fresh("sessions"), "a")).getSessionState(), null);
});

check("a message of a session is completed", async () => {
  const { name } = await sent(["a", 1]);
  const session = await accept(name, "a");
  await session.completeMessage((await take(session, 1))[0]);
  assert.deepEqual(await session.peekMessages(1), []);
});

check("an abandoned message of a session comes first again", async () => {
  const { name } = await sent(["a", 1], ["a", 2]);
  const session = await accept(name, "a");
  await session.abandonMessage((await take(session, 1))[0]);
  const again = await take(session, 2);
  assert.deepEqual(again.map((one) => [one.body, one.deliveryCount]), [[1, 1], [2, 0]]);
});

check("a session's message is deferred and received", async () => {
  const { name } = await sent(["a", 1]);
  const session = await accept(name, "a");
  const [got] = await take(session, 1);
  await session.deferMessage(got);
  assert.deepEqual(await rest(session), []);
  const [again] = await session.receiveDeferredMessages(got.sequenceNumber);
  await session.completeMessage(again);
  assert.deepEqual(await session.peekMessages(1), []);
});

check("another session does not get a deferred message", async () => {
  const { name } = await sent(["a", 1]);
  const session = await accept(name, "a");
  const [got] = await take(session, 1);
  await session.deferMessage(got);
  const other = await accept(name, "b");
  await assert.rejects(other.receiveDeferredMessages(got.sequenceNumber), { code: "MessageNotFound" });
});

check("a session's message is dead-lettered", async () => {
  const { name } = await sent(["a", 1]);
  const session = await accept(name, "a");
  await session.deadLetterMessage((await take(session, 1))[0], { deadLetterReason: "why" });
  const dead = closing(client.createReceiver(name, { subQueueType: "deadLetter" }));
  const [letter] = await take(dead, 1);
  assert.deepEqual([letter.sessionId, letter.deadLetterReason], ["a", "why"]);
});

check("peeking shows the session's own messages only", async () => {
  const { name } = await sent(["a", 1], ["b", 2], ["a", 3]);
  assert.deepEqual(bodies(await (await accept(name, "a")).peekMessages(5)), [1, 3]);
});

check("a session that receives and deletes may idle past its lock", async () => {
  const { name, sender } = queue("hasty-sessions", {});
  const session = await accept(name, "a", { receiveMode: "receiveAndDelete" });
  await pause(5_600);
  await sender.sendMessages({ body: "late", sessionId: "a" });
  assert.deepEqual(bodies(await take(session, 1)), ["late"]);
});

check("a session's lock ends", async () => {
  const name = fresh("hasty-sessions");
  await accept(name, "a", { maxAutoLockRenewalDurationInMs: 0 });
  await pause(5_600);
  assert.equal((await accept(name, "a")).sessionId, "a");
});

check("a session's subscriber gets its messages", async () => {
  const { name } = await sent(["a", 1], ["a", 2]);
  const session = await accept(name, "a");
  const seen = [];
  await new Promise((done, fail) => {
    session.subscribe({
      processMessage: async (message) => {
        seen.push(message.body);
        if (seen.length === 2) done();
      },
      processError: async ({ error }) => fail(error),
    });
  });
  assert.deepEqual(seen, [1, 2]);
});

check("sessions are listed by the time when their state was kept", async () => {
  const { name } = await sent(["with-message", 1]);
  await (await accept(name, "with-state")).setSessionState("kept");
  // The SDK has no public method for it.
  const management = client._connectionContext.getManagementClient(name);
  const listed = (since) => management.listMessageSessions(0, 10, since, { timeoutInMs: 5_000 });
  assert.deepEqual(await listed(new Date(Date.now() - 60_000)), ["with-state"]);
  assert.deepEqual(await listed(new Date(Date.now() + 60_000)), []);
});

check("a queue without sessions has none to accept", async () => {
  await assert.rejects(client.acceptSession(fresh("plain"), "a"), { name: "ServiceBusError" });
});

run();
