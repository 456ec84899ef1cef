"""cocotb benches: agents, scoreboards and one `*_tb.py` a block, and the code that runs them."""
