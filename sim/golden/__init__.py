"""WHAT the NIC does: each answer, context, completion and byte of memory, as specified."""
