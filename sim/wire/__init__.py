"""Bytes and packets: capture files, the frame codec, the ICRC."""
