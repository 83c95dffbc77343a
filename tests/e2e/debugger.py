"""An editor, as far as a breakpoint needs one: a client of the Debug Adapter Protocol."""

import itertools
import json
import socket


class Editor:
    """Attached to a process under debugpy."""

    def __init__(self, port, within):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=within)
        self._lines, self._numbers, self._came = self._socket.makefile("rb"), itertools.count(1), []
        self._send("initialize", adapterID="debugpy", pathFormat="path", linesStartAt1=True)
        # It is answered after `configurationDone`.
        self._send("attach", justMyCode=True)
        self.event("initialized")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lines.close()
        self._socket.close()

    def begin(self, file, line):
        """Set a breakpoint, and let the process run."""
        breakpoints = self.ask("setBreakpoints", source={"path": str(file)}, breakpoints=[{"line": line}])[
            "breakpoints"
        ]
        self.ask("configurationDone")
        return breakpoints

    def ask(self, command, **arguments):
        """Ask, and return what the answer holds."""
        number = self._send(command, **arguments)
        answer = self._wait(lambda one: one["type"] == "response" and one["request_seq"] == number)
        assert answer["success"], answer
        return answer.get("body", {})

    def event(self, name):
        """Wait for an event, and return what it holds."""
        return self._wait(lambda one: one["type"] == "event" and one["event"] == name).get("body", {})

    def _send(self, command, **arguments):
        number = next(self._numbers)
        body = json.dumps({"seq": number, "type": "request", "command": command, "arguments": arguments}).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        return number

    def _wait(self, is_it):
        found = next((one for one in self._came if is_it(one)), None)
        while found is None:
            self._came.append(self._read())
            found = self._came[-1] if is_it(self._came[-1]) else None
        self._came.remove(found)
        return found

    def _read(self):
        length = 0
        while (line := self._lines.readline()) != b"\r\n":
            assert line, "the debugger closed the connection"
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return json.loads(self._lines.read(length))
