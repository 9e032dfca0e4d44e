"""Any of kio's entities, for hypothesis."""

from dataclasses import fields
from datetime import timedelta
from typing import get_args, get_origin

from hypothesis import strategies as st

VALUES = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=50),
    "records": st.binary(max_size=50),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
}


def entities(kind, texts=VALUES["string"]):
    """Any entity of this kind, with nothing, one thing or more in its arrays."""
    return st.builds(kind, **{field.name: values(field, texts) for field in fields(kind)})


def values(field, texts):
    kinds = get_args(field.type) if type(None) in get_args(field.type) else (field.type,)
    array = next((kind for kind in kinds if get_origin(kind) is tuple), None)
    if array is None:
        value = plain(field, texts)
    else:
        inner = get_args(array)[0]
        nested = hasattr(inner, "__dataclass_fields__")
        element = entities(inner, texts) if nested else plain(field, texts)
        value = st.lists(element, max_size=3).map(tuple)
    return value | st.none() if type(None) in kinds else value


def plain(field, texts):
    kind = field.metadata["kafka_type"]
    return texts if kind == "string" else VALUES[kind]
