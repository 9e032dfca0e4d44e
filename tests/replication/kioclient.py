"""A client that is nothing but kio's own encoding over a blocking socket."""

import socket
from io import BytesIO

from kio.index import load_response_from_request
from kio.serial import entity_reader, entity_writer


def frame(entity, correlation_id=7):
    """The bytes that ask for this, with the length before them."""
    out, kind = BytesIO(), type(entity)
    fields = {
        "request_api_key": kind.__api_key__,
        "request_api_version": kind.__version__,
        "correlation_id": correlation_id,
        "client_id": "a test",
    }
    header = kind.__header_schema__
    entity_writer(header)(out, header(**fields))
    entity_writer(kind)(out, entity)
    return len(out.getvalue()).to_bytes(4, "big") + out.getvalue()


def answer(entity, data, correlation_id=7):
    """What is in an answer to `entity`, given without its length."""
    kind = load_response_from_request(entity)
    header, size = entity_reader(kind.__header_schema__)(data, 0)
    assert header.correlation_id == correlation_id
    read, rest = entity_reader(kind)(data, size)
    assert size + rest == len(data)
    return read


class Client:
    """One connection. EOFError: the broker has closed it."""

    def __init__(self, address, timeout=60):
        self.socket = socket.create_connection(address, timeout)

    def ask(self, entity):
        self.send(frame(entity))
        return answer(entity, self.receive())

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """The next answer, without its length."""
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, size):
        data = b""
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise EOFError
            data += more
        return data

    def is_closed(self):
        """Waits for its end. AssertionError: there is an answer."""
        try:
            data = self.socket.recv(1)
        except ConnectionResetError:
            return True
        assert not data
        return True

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
