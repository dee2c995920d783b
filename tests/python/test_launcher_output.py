"""Lines, progress bars and the prefix."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfring.errors import LaunchError
from tfring.launcher.output import LineAssembler, Output, OutputClosed, clip, last_drawn


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain", b"plain"),
        (b"crlf\r", b"crlf"),
        (b"10%\r50%\r100%", b"100%"),
        (b"10%\r50%\r", b"50%"),
        (b"\r\r", b""),
        # Keras goes back over its bar with backspaces first.
        (b"1/2 [==>]\b\b\b\b\b\b\b\b\b\r2/2 [====]", b"2/2 [====]"),
        (b"1/2\b\b\b\r", b"1/2"),
    ],
)
def test_what_a_line_shows(line: bytes, shown: bytes) -> None:
    assert last_drawn(line) == shown


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_any_cut_gives_the_same_lines(step: int) -> None:
    data = b"one\n\n1%\r2%\r3%\nlast"
    assembler = LineAssembler()
    lines = [line for at in range(0, len(data), step) for line in assembler.feed(data[at:][:step])]
    assert lines + assembler.finish() == [b"one", b"", b"3%", b"last"]
    assert assembler.finish() == []


def test_a_bar_does_not_pile_up() -> None:
    assembler = LineAssembler()
    for number in range(100_000):
        assert assembler.feed(b"\b\b\b\b\b\b\r%06d" % number) == []
    assert len(assembler._rest) < 100
    assert assembler.redrawn == b"099999"


def test_a_line_without_end_is_cut() -> None:
    assembler = LineAssembler()
    lines = [line for _ in range(40) for line in assembler.feed(bytes(10_000))]
    assert lines
    assert sum(map(len, lines + assembler.finish())) == 400_000


def test_clip_counts_characters_and_no_escapes() -> None:
    assert clip(b"\x1b[1mabc\x1b[0mdef", 4) == b"\x1b[1mabc\x1b[0md"
    assert clip("äöü".encode(), 2) == "äö".encode()


@pytest.fixture
def captured(capfd: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    return capfd


def test_streams_ranks_and_lines(captured: pytest.CaptureFixture[str]) -> None:
    output = Output()
    output.write(0, b"a\nb", is_error=False)
    output.write(1, b"x\n", is_error=False)
    output.write(0, b"c\n", is_error=False)
    output.write(0, b"oops\nunfinished", is_error=True)
    output.finish(0)
    assert captured.readouterr() == ("[0] a\n[1] x\n[0] bc\n", "[0] oops\n[0] unfinished\n")
    assert output.tail(0) == ["a", "bc", "oops", "unfinished"]


def test_no_prefix_and_timestamp(captured: pytest.CaptureFixture[str]) -> None:
    Output(prefix=False).write(0, b"a\n", is_error=False)
    assert captured.readouterr().out == "a\n"
    Output(timestamp=True).write(3, b"a\n", is_error=False)
    prefix, date, clock, text = captured.readouterr().out.split()
    assert (prefix, text) == ("[3]", "a")
    assert len(date) == len("2026-01-01") and len(clock) == len("00:00:00.000")


def test_files_have_the_bytes_as_they_were(tmp_path: Path) -> None:
    output = Output(directory=tmp_path / "logs")
    output.write(0, b"1%\r2%\n", is_error=False)
    output.write(0, b"err", is_error=True)
    output.write(11, b"other", is_error=False)
    output.finish(0)
    output.finish(11)
    assert (tmp_path / "logs/rank-0.log").read_bytes() == b"1%\r2%\nerr"
    assert (tmp_path / "logs/rank-11.log").read_bytes() == b"other"


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LaunchError, match="--output-dir"):
        Output(directory=tmp_path / "file" / "logs")


def test_a_full_disk_does_not_end_the_job(captured: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    output = Output(directory=Path("/dev"))
    output._files[0] = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
    output.write(0, b"goes on\n", is_error=False)
    output.write(0, b"and on\n", is_error=False)
    out, err = captured.readouterr()
    assert out == "[0] goes on\n[0] and on\n"
    assert err.count("No space left") == 1


def test_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    output = Output()
    monkeypatch.setattr(output._consoles[False], "_descriptor", write_end)
    with pytest.raises(OutputClosed):
        output.write(0, b"a\n", is_error=False)
    os.close(write_end)


def test_a_slow_reader_cannot_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    output = Output(stopping=lambda: True)
    monkeypatch.setattr(output._consoles[False], "_descriptor", write_end)
    output.write(0, b"line\n" * 100_000, is_error=False)  # returns, though nobody reads
    os.close(read_end)
    os.close(write_end)


def test_a_terminal_sees_the_bar_being_redrawn() -> None:
    controller, terminal = os.openpty()
    output = Output()
    console = output._consoles[False]
    console._descriptor, console._terminal = terminal, True
    output.write(0, b"10%\r", is_error=False)
    output.write(0, b"20%\r", is_error=False)
    output.write(1, b"line\n", is_error=False)
    output.write(0, b"30%\n", is_error=False)
    shown = b""
    while b"30%" not in shown or not shown.endswith(b"\n"):
        shown += os.read(controller, 4096)
    assert shown.index(b"[0] 10%") < shown.index(b"[0] 20%") < shown.index(b"[1] line")
    assert shown.endswith(b"[0] 30%\r\n")
    os.close(controller)
    os.close(terminal)
