// A bus that takes only so many operations a second for each entity.
const { ServiceBusClient } = require("@azure/service-bus");
const { assert, check, closing, fresh, run, settings } = require("./harness.cjs");
const { bodies, take } = require("./bus.cjs");

const MANY = 2_000;
const hasty = new ServiceBusClient(settings.throttled, { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } });

async function untilRefused(sender) {
  for (let n = 0; n < MANY; n++) {
    try {
      await sender.sendMessages({ body: n });
    } catch (error) {
      return { accepted: n, error };
    }
  }
  return { accepted: MANY, error: null };
}

check("what is over the limit is refused as busy", async () => {
  const { accepted, error } = await untilRefused(closing(hasty.createSender(fresh("plain"))));
  assert.ok(accepted >= settings.limit && accepted < MANY);
  assert.equal(error.code, "ServiceBusy");
  assert.match(error.message, /50009/);
});

check("what was accepted is there, and what was refused is not", async () => {
  const name = fresh("plain");
  const { accepted } = await untilRefused(closing(hasty.createSender(name)));
  const got = bodies(await take(closing(hasty.createReceiver(name)), accepted + 1));
  assert.deepEqual(got, [...Array(accepted).keys()]);
});

check("the client's own retries get everything through", async () => {
  const name = fresh("plain");
  const patient = closing(new ServiceBusClient(settings.throttled));
  const sender = patient.createSender(name);
  for (let n = 0; n <= settings.limit; n++) await sender.sendMessages({ body: n });
  const got = bodies(await take(closing(hasty.createReceiver(name)), settings.limit + 1));
  assert.deepEqual(got, [...Array(settings.limit + 1).keys()]);
});

run();
