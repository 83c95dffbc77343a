// Publishes usage.ndjson with Azure's own SDK: npm install @azure/identity @azure/storage-blob @azure/storage-queue.
// The declared sum is exact: it is computed in whole numbers of 18 decimal places.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { DefaultAzureCredential } from "@azure/identity";
import { ContainerClient } from "@azure/storage-blob";
import { QueueClient } from "@azure/storage-queue";

const login = new DefaultAzureCredential();
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const places = 18, one = 10n ** BigInt(places);
const whole = (amount) => {
  const [before, behind = ""] = String(amount).split(".");
  return BigInt(before + behind.padEnd(places, "0"));
};
const job = "usage-2026-11-22";
const lines = readFileSync("usage.ndjson", "utf8").split("\n").filter((line) => line.trim());

const stored = [], frames = [];
let offset = 0, sum = 0n;
for (let first = 0; first < lines.length; first += 1000) {
  const some = lines.slice(first, first + 1000);
  const frame = gzipSync(some.map((line) => line + "\n").join(""));
  stored.push(frame);
  frames.push([offset, frame.length, some.length, sha256(frame)]);
  offset += frame.length;
  for (const line of some) sum += whole(JSON.parse(line).quantity);
}

const payload = Buffer.concat(stored);
const blob = `${job}/${sha256(payload)}`;
const client = new ContainerClient(process.env.PAYLOADS, login).getBlockBlobClient(blob);
try {
  await client.upload(payload, payload.length, { conditions: { ifNoneMatch: "*" } });
} catch (error) {
  if (error.statusCode !== 409) throw error;
  await client.setMetadata({ touched: new Date().toISOString() });
}

const message = { sluice: {
  v: 1, kind: "submission", job, workload: "billing", gate: "nightly",
  declared: { items: lines.length, sums: { quantity: `${sum / one}.${String(sum % one).padStart(places, "0")}` } },
  payload: { blob, codec: "gzip", index: sha256(JSON.stringify(frames)), frames },
} };
await new QueueClient(process.env.QUEUE, login).sendMessage(JSON.stringify(message), { messageTimeToLive: -1 });
