// Queues and blobs of Azurite, used as Sluice's publishers and readers use them.
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { assert, check, run, settings } = require("./harness.cjs");

const queues = QueueServiceClient.fromConnectionString(settings.storage);
const blobs = BlobServiceClient.fromConnectionString(settings.storage);
let made = 0;

async function queue() {
  const client = queues.getQueueClient(`others-${made++}`);
  await client.create();
  return client;
}

async function blob(text) {
  const container = blobs.getContainerClient(`others-${made++}`);
  await container.create();
  const client = container.getBlockBlobClient("b");
  if (text !== undefined) await client.upload(text, Buffer.byteLength(text));
  return client;
}

check("a message goes through a queue", async () => {
  const client = await queue();
  await client.sendMessage("a <b> é");
  const { receivedMessageItems: [got] } = await client.receiveMessages();
  assert.deepEqual([got.messageText, got.dequeueCount], ["a <b> é", 1]);
});

check("a deleted message is gone", async () => {
  const client = await queue();
  await client.sendMessage("x");
  const { receivedMessageItems: [got] } = await client.receiveMessages({ visibilityTimeout: 1 });
  await client.deleteMessage(got.messageId, got.popReceipt);
  assert.equal((await client.getProperties()).approximateMessagesCount, 0);
});

check("a received message is out of sight, and still counted", async () => {
  const client = await queue();
  await client.sendMessage("x");
  await client.receiveMessages({ visibilityTimeout: 30 });
  assert.deepEqual((await client.receiveMessages()).receivedMessageItems, []);
  assert.equal((await client.getProperties()).approximateMessagesCount, 1);
});

check("an old receipt is refused", async () => {
  const client = await queue();
  await client.sendMessage("x");
  const { receivedMessageItems: [got] } = await client.receiveMessages();
  await client.updateMessage(got.messageId, got.popReceipt, "y", 30);
  await assert.rejects(client.deleteMessage(got.messageId, got.popReceipt), { statusCode: 400 });
});

check("a message is peeked without a count", async () => {
  const client = await queue();
  await client.sendMessage("x");
  const { peekedMessageItems: [got] } = await client.peekMessages();
  assert.deepEqual([got.messageText, got.dequeueCount], ["x", 0]);
});

check("thirty-two messages come at once", async () => {
  const client = await queue();
  for (let n = 0; n < 33; n++) await client.sendMessage(`${n}`);
  assert.equal((await client.receiveMessages({ numberOfMessages: 32 })).receivedMessageItems.length, 32);
});

check("a blob comes back whole and by range", async () => {
  const client = await blob("0123456789");
  assert.equal((await client.downloadToBuffer()).toString(), "0123456789");
  assert.equal((await client.downloadToBuffer(2, 3)).toString(), "234");
});

check("a blob is made once where the writer says so", async () => {
  const client = await blob("first");
  await assert.rejects(client.upload("second", 6, { conditions: { ifNoneMatch: "*" } }), { statusCode: 409 });
});

check("a blob that changed refuses an old ETag", async () => {
  const client = await blob("1");
  const { etag } = await client.getProperties();
  await client.upload("2", 1, { conditions: { ifMatch: etag } });
  await assert.rejects(client.upload("3", 1, { conditions: { ifMatch: etag } }), { statusCode: 412 });
});

check("a leased blob refuses a writer without the lease", async () => {
  const client = await blob("1");
  await client.getBlobLeaseClient().acquireLease(15);
  await assert.rejects(client.upload("2", 1), { statusCode: 412 });
});

run();
