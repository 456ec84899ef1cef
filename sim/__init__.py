"""The golden model. Python and NumPy; imports nothing of rtl but rtl.config."""
