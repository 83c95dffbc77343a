// What the checks of the bus share: a client, and a sender and a receiver of a fresh queue.
const { ServiceBusClient } = require("@azure/service-bus");
const { closing, fresh, settings } = require("./harness.cjs");

const client = new ServiceBusClient(settings.bus, { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } });

function queue(kind = "plain", options = {}) {
  const name = fresh(kind);
  return {
    name,
    sender: closing(client.createSender(name)),
    receiver: kind === "sessions" ? null : closing(client.createReceiver(name, options)),
  };
}

function deadLetters(name, subQueueType = "deadLetter") {
  return closing(client.createReceiver(name, { subQueueType }));
}

// Receives until there are `count`, or until nothing more comes.
async function take(receiver, count) {
  const found = [];
  while (found.length < count) {
    const some = await receiver.receiveMessages(count - found.length, { maxWaitTimeInMs: 3_000 });
    if (some.length === 0) break;
    found.push(...some);
  }
  return found;
}

// What is still there: waits only as long as a message at hand takes.
async function rest(receiver) {
  return (await receiver.receiveMessages(10, { maxWaitTimeInMs: 400 })).map((message) => message.body);
}

const bodies = (messages) => messages.map((message) => message.body);
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

module.exports = { bodies, client, deadLetters, pause, queue, rest, take };
