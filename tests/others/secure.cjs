// A bus that speaks TLS only and asks for tokens of its key, directly and through WebSockets.
const { ServiceBusClient, ServiceBusAdministrationClient } = require("@azure/service-bus");
const { assert, check, closing, fresh, run, settings } = require("./harness.cjs");
const { bodies, take } = require("./bus.cjs");

const retryOptions = { maxRetries: 0, timeoutInMs: 10_000 };
const tunnelled = { webSocketOptions: { webSocket: WebSocket } };
const wrong = settings.secure.replace(/SharedAccessKey=[^;]*/, "SharedAccessKey=another");

async function thereAndBack(options) {
  const name = fresh("plain");
  const client = closing(new ServiceBusClient(settings.secure, { retryOptions, ...options }));
  const body = Buffer.alloc(100_000, 7);
  await client.createSender(name).sendMessages([{ body }, { body: "short" }]);
  const receiver = client.createReceiver(name);
  const got = await take(receiver, 2);
  for (const message of got) await receiver.completeMessage(message);
  assert.deepEqual([got[0].body.length, got[1].body], [100_000, "short"]);
}

check("messages pass over TLS", () => thereAndBack({}));

check("messages pass through a WebSocket", () => thereAndBack(tunnelled));

check("many small messages pass through a WebSocket in order", async () => {
  const name = fresh("plain");
  const client = closing(new ServiceBusClient(settings.secure, { retryOptions, ...tunnelled }));
  const sender = client.createSender(name);
  for (let n = 0; n < 50; n++) await sender.sendMessages({ body: n });
  assert.deepEqual(bodies(await take(client.createReceiver(name), 50)), [...Array(50).keys()]);
});

for (const [way, options] of Object.entries({ "over TLS": {}, "through a WebSocket": tunnelled })) {
  check(`a wrong key is refused ${way}`, async () => {
    const client = closing(new ServiceBusClient(wrong, { retryOptions, ...options }));
    await assert.rejects(client.createSender(fresh("plain")).sendMessages({ body: 1 }), {
      code: "UnauthorizedAccess",
      message: /InvalidSignature/,
    });
  });
}

check("the administration refuses a wrong key", async () => {
  await assert.rejects(new ServiceBusAdministrationClient(wrong).getQueue(fresh("plain")), {
    code: "UnauthorizedRequestError",
  });
});

run();
