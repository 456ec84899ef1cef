"""Parser (rtl/parser), part by part: docs/formal.md says what follows for the whole."""

from formal import parser_align, parser_decide, parser_host, parser_route

PROOFS = parser_route.PROOFS + parser_align.PROOFS + parser_host.PROOFS + parser_decide.PROOFS
