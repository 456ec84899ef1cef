"""A barrel rotator."""

from amaranth.hdl import Cat, Mux, Signal


def rotated(m, word, amount, *, left: bool = False, unit: int = 8):
    """`word` rotated by `amount` units of bits, one named stage a bit of `amount`.

    The stages are Signals: a nested expression would be written out again at each use.
    """
    width = len(word)
    stage = word
    for i in range(len(amount)):
        step = (unit << i) % width
        following = Signal(width)
        turned = Cat(stage[width - step:], stage[:width - step]) if left \
            else Cat(stage[step:], stage[:step])
        m.d.comb += following.eq(Mux(amount[i], turned, stage))
        stage = following
    return stage
