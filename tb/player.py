"""Plays a table of inputs into a top, a row a cycle, and gives its outputs, without cocotb.

For benches whose inputs do not depend on the outputs: tens of thousands of cycles a second. The
top and a module `player` around it, which reads and writes files, are one program.
"""

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tb.build import PRECOMPILED_HEADER, check_simulator, kept_build, use_verilator
from tools import process

Fields = dict[str, tuple[int, int]]  # name → (offset, width) in a row
CLOCK = "clk"
PLAYER = """
module player;
  reg clk = 0;
  reg [{inputs}:0] in;
  wire [{outputs}:0] out;
  {top} dut({ports});
  integer from, into;
  reg [8191:0] path;
  initial begin
    if ($value$plusargs("from=%s", path)) from = $fopen(path, "r");
    if ($value$plusargs("into=%s", path)) into = $fopen(path, "w");
    while ($fscanf(from, "%h", in) == 1) begin
      #1 $fwrite(into, "{form}\\n", out);
      clk = 1;
      #1 clk = 0;
    end
    $fclose(into);
    $finish;
  end
endmodule
"""
VERILATOR = ("--binary", "-O3", "--x-assign", "unique", "--x-initial", "unique", "-Wno-fatal",
             "-Wno-lint", "-CFLAGS", "-O1", "-MAKEFLAGS",
             f"{PRECOMPILED_HEADER} CFG_CXXFLAGS_COROUTINES=-fcoroutines")


class Player:
    """A top, built to be played.

    `inputs` and `outputs` are where each port is in a row, the clock aside. Outputs are as they
    are just before the clock's edge.
    """

    def __init__(self, top: str, source: Path, simulator: str = "verilator"):
        check_simulator(simulator)
        text = source.read_text()
        self.simulator = simulator
        self.inputs, self.outputs = (_fields(top, text, way) for way in ("input", "output"))
        text += self._wrapper(top)

        def compile_it(folder: Path) -> None:
            (folder / "player.v").write_text(text)
            with open(folder / "build.log", "w") as log:
                process.run(self._compiler(), cwd=folder, output=log)

        self.folder = kept_build(f"{top}-player", simulator, compile_it,
                                 repr((text, self._compiler())).encode())

    def _wrapper(self, top: str) -> str:
        ports = [f".{CLOCK}(clk)", *(
            f".{name}({row}[{offset + width - 1}:{offset}])"
            for row, fields in (("in", self.inputs), ("out", self.outputs))
            for name, (offset, width) in fields.items())]
        return PLAYER.format(top=top, ports=", ".join(ports), inputs=size(self.inputs) - 1,
                             outputs=size(self.outputs) - 1,
                             form="%b" if self.simulator == "icarus" else "%h")

    def _compiler(self) -> list[str]:
        if self.simulator == "icarus":
            return ["iverilog", "-g2005", "-s", "player", "-o", "player.vvp", "player.v"]
        use_verilator()
        return ["verilator", *VERILATOR, "--top", "player", "--Mdir", ".", "player.v"]

    def play(self, rows: Iterable[int], plusargs: tuple[str, ...] = ()) -> Iterator[int]:
        """The outputs for each row of inputs; `AssertionError` if the program gives up before.

        An output that is undefined, which only Icarus has, counts as 0.
        """
        work = Path(tempfile.mkdtemp(prefix="rnic-"))
        try:
            count = 0
            with open(work / "in", "w") as file:
                for row in rows:
                    file.write(f"{row:x}\n")
                    count += 1
            (work / "out").touch()  # a program that does not start leaves none
            program = ["vvp", str(self.folder / "player.vvp")] if self.simulator == "icarus" \
                else [str(self.folder / "Vplayer")]
            ended = ""
            with open(work / "log", "w") as log:
                try:
                    process.run([*program, "+from=in", "+into=out", *plusargs], cwd=work,
                                output=log)
                except RuntimeError as error:
                    ended = str(error)
            given = 0
            with open(work / "out") as file:
                for line in file:
                    yield int(re.sub("[xz]", "0", line), 2) if self.simulator == "icarus" \
                        else int(line, 16)
                    given += 1
            if given < count:
                raise AssertionError(f"ended after {given} of {count} cycles: {ended}\n"
                                     + (work / "log").read_text()[-1000:])
        finally:
            shutil.rmtree(work, ignore_errors=True)


class Row:
    """One row, by the ports' names."""

    def __init__(self, fields: Fields, word: int = 0):
        self.fields = fields
        self.word = word

    def set(self, name: str, value: int) -> None:
        offset, width = self.fields[name]
        if value >> width:
            raise ValueError(f"{name}: {value} does not fit {width} bits")
        self.word ^= (self.get(name) ^ value) << offset

    def get(self, name: str) -> int:
        offset, width = self.fields[name]
        return self.word >> offset & ((1 << width) - 1)


def size(fields: Fields) -> int:
    """Bits of a row."""
    return sum(width for _, width in fields.values())


def _fields(top: str, text: str, way: str) -> Fields:
    module = text[text.index(f"\nmodule {top}("):]
    fields, offset = {}, 0
    for high, name in re.findall(rf"^  {way} (?:\[(\d+):0\] )?(\w+);",
                                 module[:module.index("\nendmodule")], re.MULTILINE):
        if name != CLOCK:
            width = int(high or 0) + 1
            fields[name] = (offset, width)
            offset += width
    return fields
