"""Test lists that LiveCodeBench stores as base64 of zlib of a pickled JSON text, read without trust."""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import pickletools
import zlib
from typing import Any, NoReturn

from cobalt.errors import InputError

MAX_BYTES = 256 << 20
_MAX_MEMO = 1 << 20

# All that a pickled text consists of. Other opcodes build structures, of which few bytes make very large
# ones, or find, call and build objects: GLOBAL, STACK_GLOBAL, INST, OBJ, NEWOBJ, REDUCE, BUILD, EXT, PERSID.
_TEXT_CODES = (
    "PROTO FRAME UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 PUT BINPUT LONG_BINPUT MEMOIZE STOP"
)
_ALLOWED = frozenset(_TEXT_CODES.split())


class _NoGlobals(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"refused: {module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("refused: a persistent id")


def decode_tests(text: str, where: str, max_bytes: int = MAX_BYTES) -> list[Any]:
    """The list of tests in a field: JSON text as it is, or base64(zlib(pickle(JSON text))).

    Raises InputError, beginning with `where`, for anything else: a pickle that would import, call or build
    something (nothing of it is run), data that unpack to more than `max_bytes`, or no list.
    """
    stripped = text.strip()
    if not stripped.startswith(("[", "{", '"')):
        text = _unpickle(_inflate(stripped, where, max_bytes), where)
    try:
        tests = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid JSON ({error})") from None
    if not isinstance(tests, list):
        raise InputError(f"{where}: must hold a list of tests, got {type(tests).__name__}")
    return tests


def _inflate(text: str, where: str, max_bytes: int) -> bytes:
    try:
        packed = base64.b64decode(text, validate=True)
        stream = zlib.decompressobj()
        data = stream.decompress(packed, max_bytes)
        if stream.unconsumed_tail or (not stream.eof and stream.decompress(b"", 1)):
            raise InputError(
                f"{where}: unpacks to more than {max_bytes >> 20} MiB (--max_tests_mib raises it)"
            )
        if not stream.eof:
            raise InputError(f"{where}: the compressed data end too early")
    except (binascii.Error, ValueError, zlib.error) as error:
        raise InputError(
            f"{where}: neither JSON nor base64 of zlib of a pickle ({error}); is the file complete?"
        ) from None
    return data


def _unpickle(data: bytes, where: str) -> str:
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name not in _ALLOWED:
                raise InputError(f"{where}: a pickle of more than a text ({opcode.name}) is not opened")
            if "PUT" in opcode.name and not 0 <= int(argument or 0) < _MAX_MEMO:
                raise InputError(f"{where}: a pickle with a memo of {argument} entries is not opened")
        value = _NoGlobals(io.BytesIO(data)).load()
    except InputError:
        raise
    except Exception as error:  # broken pickles raise nearly anything
        raise InputError(f"{where}: a broken pickle ({type(error).__name__}: {error})") from None
    if not isinstance(value, str):
        raise InputError(f"{where}: the pickle holds {type(value).__name__}, not a text")
    return value
