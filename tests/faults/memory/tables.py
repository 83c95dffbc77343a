"""The table service, as far as Sluice uses it: conditional writes, ranges, transactions that happen or do not."""

import json
import operator
import re
import urllib.parse

from requests.structures import CaseInsensitiveDict

from tests.faults.memory.reply import Asked, Reply

_ENTITY = re.compile(r"(\w+)\(PartitionKey='((?:[^']|'')*)',RowKey='((?:[^']|'')*)'\)")
_TABLE = re.compile(r"Tables\('(\w+)'\)")
_TERM = re.compile(r"(\w+) (eq|ne|lt|le|gt|ge) (?:'((?:[^']|'')*)'|(-?\d+)L?)")
_PART = re.compile(rb"(\w+) (\S+) HTTP/1.1\r?\n(.*?)\r?\n\r?\n(.*)", re.DOTALL)
_JSON = {"Content-Type": "application/json;odata=minimalmetadata"}


class Tables:
    """Tables of entities as they came over the wire."""

    def __init__(self, storage, tables):
        self._storage = storage
        self.content = {name: {} for name in tables}

    def answer(self, asked):
        """Answer one request."""
        if asked.path == "$batch":
            return self._batch(asked)
        if asked.path == "Tables":
            return self._create(asked) if asked.method == "POST" else self._named()
        if removed := _TABLE.fullmatch(asked.path):
            del self.content[removed[1]]
            return Reply(204)
        entity = _ENTITY.fullmatch(asked.path)
        table = self.content.get(entity[1] if entity else asked.path.removesuffix("()"))
        if table is None:
            return _refusal(404, "TableNotFound")
        if not entity:
            return self._insert(table, asked) if asked.method == "POST" else _queried(table, asked.query)
        key = entity[2].replace("''", "'"), entity[3].replace("''", "'")
        return self._get(table, key) if asked.method == "GET" else self._write(table, key, asked)

    def _named(self):
        return Reply(200, json.dumps({"value": [{"TableName": name} for name in self.content]}).encode(), _JSON)

    def _create(self, asked):
        name = json.loads(asked.body)["TableName"]
        if name in self.content:
            return _refusal(409, "TableAlreadyExists")
        self.content[name] = {}
        return Reply(201, json.dumps({"TableName": name}).encode(), _JSON)

    def _get(self, table, key):
        return Reply(200, json.dumps(table[key]).encode(), _JSON) if key in table else _refusal(404, "ResourceNotFound")

    def _insert(self, table, asked):
        entity = json.loads(asked.body)
        key = entity["PartitionKey"], entity["RowKey"]
        if key in table:
            return _refusal(409, "EntityAlreadyExists")
        stored = self._stored(table, key, entity)
        if "no-content" in asked.headers.get("Prefer", ""):
            return stored
        return Reply(201, json.dumps(table[key]).encode(), {**_JSON, **stored.headers})

    def _write(self, table, key, asked):
        only, found = asked.headers.get("If-Match"), table.get(key)
        if found is None and (only is not None or asked.method == "DELETE"):
            return _refusal(404, "ResourceNotFound")
        if only not in {None, "*"} and only != found["odata.etag"]:
            return _refusal(412, "UpdateConditionNotSatisfied")
        if asked.method == "DELETE":
            del table[key]
            return Reply(204)
        entity = json.loads(asked.body)
        if asked.method in {"PATCH", "MERGE"}:
            entity = {**(found or {}), **entity}
        return self._stored(table, key, {**entity, "PartitionKey": key[0], "RowKey": key[1]})

    def _stored(self, table, key, entity):
        etag = f"W/\"datetime'{self._storage.version()}'\""
        moment = self._storage.now.isoformat().replace("+00:00", "Z")
        table[key] = {**entity, "odata.etag": etag, "Timestamp": moment}
        return Reply(204, headers={"ETag": etag})

    def _batch(self, asked):
        before = {name: dict(rows) for name, rows in self.content.items()}
        replies = []
        for number, (method, path, headers, body) in enumerate(_parts(asked.body)):
            reply = self.answer(Asked(method, path, {}, headers, body))
            if reply.status >= 400:
                self.content.clear()
                self.content.update(before)
                code = json.loads(reply.body)["odata.error"]["code"]
                return _multipart([_refusal(reply.status, code, f"{number}:{code}")])
            replies.append(reply)
        return _multipart(replies)


def _parts(body):
    for piece in re.split(rb"--changeset_[^\r\n]*", body):
        found = _PART.search(piece)
        if found:
            lines = (line.partition(":") for line in found[3].decode().splitlines())
            headers = CaseInsensitiveDict((name.strip(), value.strip()) for name, _, value in lines)
            path = urllib.parse.unquote(urllib.parse.urlsplit(found[2].decode()).path.split("/", 2)[2])
            yield found[1].decode(), path, headers, found[4].strip()


def _multipart(replies):
    parts = "".join(
        "--changesetresponse_s\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
        f"HTTP/1.1 {reply.status} {reply.reason}\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        + f"\r\n{reply.body.decode()}\r\n"
        for reply in replies
    )
    text = (
        "--batchresponse_b\r\nContent-Type: multipart/mixed; boundary=changesetresponse_s\r\n\r\n"
        f"{parts}--changesetresponse_s--\r\n--batchresponse_b--\r\n"
    )
    return Reply(202, text.encode(), {"Content-Type": "multipart/mixed; boundary=batchresponse_b"})


def _refusal(status, code, message=""):
    error = {"odata.error": {"code": code, "message": {"lang": "en-US", "value": message or code}}}
    return Reply(status, json.dumps(error).encode(), {**_JSON, "x-ms-error-code": code})


def _queried(table, query):
    terms = [_compared(term) for term in _TERM.finditer(query.get("$filter", ""))]
    rows = [row for _, row in sorted(table.items()) if all(term(row) for term in terms)]
    most, after = int(query.get("$top", 1000)), (query.get("NextPartitionKey"), query.get("NextRowKey"))
    if after[0] is not None:
        rows = [row for row in rows if _key(row) >= after]
    headers = dict(_JSON)
    if len(rows) > most:
        following = _key(rows[most])
        headers |= {"x-ms-continuation-NextPartitionKey": following[0], "x-ms-continuation-NextRowKey": following[1]}
    kept = [_selected(row, query.get("$select")) for row in rows[:most]]
    return Reply(200, json.dumps({"value": kept}).encode(), headers)


def _key(row):
    return row["PartitionKey"], row["RowKey"]


def _compared(term):
    name, compare = term[1], getattr(operator, term[2])
    value = int(term[4]) if term[4] is not None else term[3].replace("''", "'")

    def holds(row):
        found = row.get(name)
        # What a row does not have is equal to nothing and different from nothing.
        return found is not None and compare(type(value)(found), value)

    return holds


def _selected(row, select):
    if not select:
        return row
    wanted = {name.strip() for name in select.split(",")}
    return {name: value for name, value in row.items() if name == "odata.etag" or name.split("@")[0] in wanted}
