"""WHAT the NIC does: every answer, context, completion and byte of memory, from the specification."""
