"""The hardware. Amaranth only; imports nothing from sim, tb or cli."""
