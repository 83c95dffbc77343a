# Publishes usage.ndjson as frames with an index. Type the line of docs/formats.md that sets the addresses before.
token=$(az account get-access-token --resource https://storage.azure.com --query accessToken --output tsv)
ask() { printf 'Authorization: Bearer %s\nx-ms-version: 2021-12-02\n' "$token" | curl --fail --silent --show-error -H @- "$@"; }
hash() { sha256sum | cut -d ' ' -f 1; }

split -l 1000 -a 6 usage.ndjson frame-
offset=0 items=0 rows= comma=
for lines in frame-??????; do
  gzip -n "$lines"
  length=$(($(wc -c < "$lines.gz"))) count=$(($(gzip -dc "$lines.gz" | wc -l)))
  rows="$rows$comma[$offset,$length,$count,\"$(hash < "$lines.gz")\"]" comma=,
  offset=$((offset + length)) items=$((items + count))
done
cat frame-??????.gz > payload.gz

job=usage-2026-11-21 blob="$job/$(hash < payload.gz)"
ask -X PUT "$PAYLOADS/$blob" -H 'x-ms-blob-type: BlockBlob' -H 'If-None-Match: *' --data-binary @payload.gz

cat > message.xml <<XML
<QueueMessage><MessageText>{"sluice": {"job": "$job", "gate": "nightly", "declared": {"items": $items},
"payload": {"blob": "$blob", "codec": "gzip", "index": "$(printf '[%s]' "$rows" | hash)", "frames": [$rows]}}}</MessageText></QueueMessage>
XML
ask -X POST "$QUEUE/messages?messagettl=-1" -H 'Content-Type: application/xml' --data-binary @message.xml
