"""Lines and JSON lines become messages; what is wrong is told with its line."""

from __future__ import annotations

import io
import os
import signal
import threading
import time

import pytest

from tests.support.each import each
from turnabout.cli._lines import BadLine, Format, Lines, Record, Shape, records
from turnabout.words import limits
from turnabout.words.payload import JSON, TEXT


def read(data: bytes, kind: Format = "text", shape: Shape | None = None) -> list[Record]:
    return list(records(Lines(io.BytesIO(data), lambda: None), kind, shape or Shape()))


def bad(data: bytes, kind: Format = "text", shape: Shape | None = None) -> tuple[int, str]:
    with pytest.raises(BadLine) as caught:
        read(data, kind, shape)
    return caught.value.line, caught.value.text


def payloads(found: list[Record]) -> list[bytes]:
    return [record.message.payload for record in found]


def test_each_line_is_a_message_with_or_without_a_last_line_feed() -> None:
    assert payloads(read(b"one\ntwo")) == [b"one", b"two"]
    assert payloads(read(b"one\r\ntwo\n")) == [b"one", b"two"]
    assert read(b"") == []


def test_blank_lines_are_counted_and_keep_their_numbers() -> None:
    lines = Lines(io.BytesIO(b"\none\n  \ntwo\n"), lambda: None)
    assert [record.line for record in records(lines, "text", Shape())] == [2, 4]
    assert (lines.blank, lines.next) == (2, 5)


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert payloads(read("\ufeffone\n".encode())) == [b"one"]


def test_lines_that_cross_chunks() -> None:
    wanted = [b"x" * n for n in (1, 65_536, 65_535, 200_000, 3)]
    assert payloads(read(b"\n".join(wanted))) == wanted


def test_objects_and_lists_are_json_and_other_texts_are_text() -> None:
    found = read(b'{"a": 1}\n[1]\n42\n{"a"\n')
    assert [r.message.content_type for r in found] == [JSON, JSON, TEXT, TEXT]
    assert read(b"{}", shape=Shape(kind="text"))[0].message.content_type == TEXT


def test_json_is_kept_byte_by_byte() -> None:
    assert payloads(read(b'{"a":  1.10}\n', "jsonl")) == [b'{"a":  1.10}']


def test_lines_that_must_be_json() -> None:
    assert bad(b"{}\n{broken\n", "jsonl")[0] == 2
    assert bad(b"1\nx\n", shape=Shape(kind="json"))[0] == 2
    assert "NaN" in bad(b"NaN\n", "jsonl")[1]


def test_a_line_over_the_limit_is_refused_before_it_is_read_to_its_end() -> None:
    class Endless(io.RawIOBase):
        """Two lines, the second without end."""

        given = 0

        def read(self, size: int = -1) -> bytes:
            self.given += size
            return b"one\n" + b"x" * (size - 4) if self.given == size else b"x" * size

    stream = Endless()
    reader = records(Lines(stream, lambda: None), "text", Shape())  # type: ignore[arg-type]
    taken: list[Record] = []
    with pytest.raises(BadLine, match="1,048,576") as caught:
        taken.extend(reader)
    assert caught.value.line == 2
    assert stream.given < limits.PAYLOAD_BYTES_MAX + 200_000


def test_a_payload_just_over_the_limit_is_refused() -> None:
    exactly = b"x" * limits.PAYLOAD_BYTES_MAX
    assert payloads(read(exactly)) == [exactly]
    assert bad(b"a\n" + exactly + b"x\n")[0] == 2


def test_text_that_is_not_utf8_is_refused_with_its_line() -> None:
    assert bad(b"ok\n\xff\xfe\n") == (2, "the text is not UTF-8")


def test_the_channel_from_a_field_or_a_path() -> None:
    shape = Shape(channel_from="who.id")
    data = b'{"who": {"id": 7}}\n{"who.id": "ada"}\n'
    assert [r.message.channel for r in read(data, "jsonl", shape)] == ["7", "ada"]


@each("line", [b'{"a": 1}', b'{"id": null}', b'{"id": true}', b'{"id": 1.5}'])
def test_a_channel_that_a_line_does_not_tell(line: bytes) -> None:
    number, text = bad(b'{"id": 1}\n' + line, "jsonl", Shape(channel_from="id"))
    assert number == 2
    assert "'id'" in text


def test_text_has_no_field_for_a_channel() -> None:
    assert bad(b"hello\n", "text", Shape(channel_from="id"))[0] == 1


def test_headers_priority_and_delay_go_to_every_message() -> None:
    shape = Shape(
        options={"channel": "c", "priority": 3, "delay_seconds": 1.5, "headers": {"k": "v"}}
    )
    (record,) = read(b"x", shape=shape)
    message = record.message
    assert (message.channel, message.priority, message.delay_ms) == ("c", 3, 1500)
    assert message.headers == {"k": "v"}


def test_a_pipe_beside_many_open_files(many_open_files: None) -> None:
    reading, writing = os.pipe()
    assert reading > 1024
    with os.fdopen(reading, "rb", buffering=0) as stream:
        os.write(writing, b"a\n")
        # What has come is handed on before it waits for more, and then the pipe is closed.
        idle = iter([lambda: os.close(writing)])
        lines = Lines(stream, lambda: next(idle)())  # type: ignore[arg-type]
        assert list(lines) == [b"a"]


def test_a_signal_that_wakes_no_read_is_heard() -> None:
    """One that comes right before a read blocks is only noted. Here another thread gets it."""
    reading, writing = os.pipe()
    end = threading.Timer(10, os.close, [writing])  # should it not be heard

    def interrupt() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with os.fdopen(reading, "rb", buffering=0) as stream:
            began = time.monotonic()
            end.start()
            threading.Thread(target=interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                list(Lines(stream, lambda: None))  # type: ignore[arg-type]
        assert time.monotonic() - began < 8
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, before)
        end.cancel()
        end.join()
        os.close(writing)
