# SPDX-License-Identifier: Apache-2.0
"""A terminal as far as tarry uses one: what stands on its two screens, and a process that runs on it."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

PATTERN = re.compile(r"\x1b\[(?P<mode>\??)(?P<number>\d*)(?P<final>[A-Za-z])|(?P<broken>\x1b)|(?P<other>.)", re.DOTALL)
BEGUN = re.compile(r"\x1b(\[\??\d*)?$")  # a sequence whose end is still to come


class Screen:
    """Takes what a program writes. Anything that it does not know is an error."""

    def __init__(self, rows, columns):
        self.main, self.second = [], None
        self.row = self.column = 0
        self.cursor = self.wraps = True
        self.styles = set()
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.rest = ""
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns

    def lines(self):
        return self.main if self.second is None else self.second

    def text(self):
        return [line.rstrip() for line in self.lines()]

    def put(self, character):
        lines = self.lines()
        while len(lines) <= self.row:
            lines.append("")
        line = lines[self.row].ljust(self.column)
        if self.column >= self.columns:
            raise ValueError(f"a line goes beyond column {self.columns}: {line!r}")
        lines[self.row] = line[:self.column] + character + line[self.column + 1:]
        self.column += 1

    def newline(self):
        self.row += 1
        if self.second is not None and self.row >= self.rows:
            raise ValueError("the picture is longer than the screen")
        if self.second is None:
            self.main += [""] * (self.row + 1 - len(self.main))

    def mode(self, number, on):
        if number == 1049:
            if on == (self.second is not None):
                raise ValueError("the screen is changed twice")
            if on:
                self.saved = self.row, self.column
                self.second, self.row, self.column = [], 0, 0
            else:
                self.second, (self.row, self.column) = None, self.saved
        elif number == 25:
            self.cursor = on
        elif number == 7:
            self.wraps = on
        else:
            raise ValueError(f"mode {number}")

    def control(self, mode, number, final):
        lines = self.lines()
        if mode and final in "hl":
            self.mode(int(number), final == "h")
        elif final == "m":
            self.styles.add(number)
        elif final == "H" and not number:
            self.row = self.column = 0
        elif final == "K" and not number:
            if self.row < len(lines):
                lines[self.row] = lines[self.row][:self.column]
        elif final == "J" and not number:
            if self.row < len(lines):
                lines[self.row] = lines[self.row][:self.column]
            del lines[self.row + 1:]
        else:
            raise ValueError(f"sequence {mode}{number}{final}")

    def feed(self, content):
        text = self.rest + self.decoder.decode(content)
        begun = BEGUN.search(text)
        self.rest = text[begun.start():] if begun else ""
        text = text.removesuffix(self.rest)
        for part in PATTERN.finditer(text):
            if part["final"]:
                self.control(part["mode"], part["number"], part["final"])
            elif part["broken"]:
                raise ValueError("an escape that is no sequence")
            elif part["other"] == "\r":
                self.column = 0
            elif part["other"] == "\n":
                self.newline()
            elif part["other"] < " ":
                raise ValueError(f"control character {part['other']!r}")
            else:
                self.put(part["other"])


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, arguments, rows=24, columns=80, **environment):
        self.screen = Screen(rows, columns)
        self.pictures = []  # that were read and not looked at
        self.master, self.slave = pty.openpty()
        self.set_size(rows, columns)
        self.settings = termios.tcgetattr(self.slave)
        env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        env.update({"LC_ALL": "C.UTF-8", "TERM": "xterm", **environment})

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(arguments, stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        preexec_fn=own_terminal, env=env)

    def set_size(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        """What is on its way is still of the old size, so that the screen never shrinks."""
        self.settle()
        self.screen.resize(max(rows, self.screen.rows), max(columns, self.screen.columns))
        self.set_size(rows, columns)
        self.process.send_signal(signal.SIGWINCH)

    def read(self, seconds):
        """At most one picture, each of which begins at the screen's top: none is missed. False: nothing came."""
        if not self.pictures:
            ready, _, _ = select.select([self.master], [], [], seconds)
            if not ready:
                return False
            self.pictures = [piece for piece in re.split(rb"(?=\x1b\[H)", os.read(self.master, 65536)) if piece]
        self.screen.feed(self.pictures.pop(0))
        return True

    def settle(self):
        while self.read(0.05):
            pass

    def wait_for(self, holds, seconds=60):
        """Reads until holds(lines of the screen); gives these back."""
        end = time.monotonic() + seconds
        while not holds(self.screen.text()):
            if time.monotonic() > end:
                raise TimeoutError("\n".join(self.screen.text()))
            self.read(0.1)
        return self.screen.text()

    def wait_for_text(self, text, seconds=60):
        return self.wait_for(lambda lines: any(text in line for line in lines), seconds)

    def press(self, keys):
        os.write(self.master, keys)

    def end(self, seconds=60):
        """Until the process ends; gives back its status."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        self.settle()
        return self.process.poll()

    def is_restored(self):
        return (self.screen.second is None and self.screen.cursor and self.screen.wraps
                and termios.tcgetattr(self.slave) == self.settings and os.get_blocking(self.slave))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self.master)
