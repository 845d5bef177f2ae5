"""Strategies of hypothesis that generate values of msgspec's types, up to the limits of each type."""

from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

from tests.fuzz.mutate import EDGE_NUMBERS

#: Few names, so that parts of one value refer to each other.
_NAMES = st.sampled_from(["g", "t0", "t1", "c1", "c2", "i1", "é", ""])
_TEXT_STRATEGY = st.one_of(
    _NAMES,
    st.sampled_from(["range", "cooperative-sticky", "uniform", "consumer", "connect", "r1", "A" * 22]),
    st.text(max_size=4),
)


def of(type_: Any) -> st.SearchStrategy[Any]:
    """Return the hypothesis strategy for values of a struct, or of any other type that msgspec supports."""
    return _strategy_of_type(inspect.type_info(type_))


def _strategy_of_type(kind: inspect.Type) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one return a kind of type
    match kind:
        case inspect.StructType(cls=cls, fields=fields):
            return _struct_strategy(cls, fields)
        case inspect.IntType(ge=least, le=most):
            low, high = -(2**63) if least is None else least, 2**63 - 1 if most is None else most
            edge_numbers = [edge for edge in (*EDGE_NUMBERS, low, high) if low <= edge <= high]
            return st.integers(max(low, -3), min(high, 6)) | st.sampled_from(edge_numbers)
        case inspect.StrType(max_length=most):
            return _TEXT_STRATEGY if most is None else _TEXT_STRATEGY.filter(lambda text: len(text) <= most)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return st.lists(_strategy_of_type(item), max_size=4)
        case inspect.TupleType(item_types=items):
            return st.tuples(*map(_strategy_of_type, items))
        case inspect.DictType(key_type=key, value_type=value):
            names = _strategy_of_type(key) if isinstance(key, inspect.IntType) else _NAMES
            return st.dictionaries(names, _strategy_of_type(value), max_size=3)
        case inspect.BytesType():
            return st.binary(max_size=24)
        case inspect.UnionType(types=types):
            return st.one_of(list(map(_strategy_of_type, types)))
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
    raise TypeError(f"{kind}: no values of this type are made yet")


def _struct_strategy(cls: type, fields: tuple[inspect.Field, ...]) -> st.SearchStrategy[Any]:
    required_fields = {field.name: _strategy_of_type(field.type) for field in fields if field.required}
    others = {field.name: _strategy_of_type(field.type) for field in fields if not field.required}
    return st.fixed_dictionaries(required_fields, optional=others).map(lambda values: cls(**values))
