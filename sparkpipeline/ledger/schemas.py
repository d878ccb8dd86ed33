"""Schemas read from a folder: from a manifest, or from the footers of its data files.

Anyone with write access to the folder may have written them, and Spark takes more from a schema than names and types.
A user-defined type has PySpark import its class (older releases unpickle one), and the metadata of a column may hold
SQL, for files that lack the column.  So a schema is rebuilt from harmless parts before PySpark sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groundwork.jsontext import json_value
from sparkpipeline.errors import LedgerDamaged

METADATA = ("comment", "__COLLATIONS", "__CHAR_VARCHAR_TYPE_STRING")  # of a column: texts that belong to its type
CLASSES = {  # user-defined types that Spark itself brings
    ("org.apache.spark.ml.linalg.VectorUDT", "pyspark.ml.linalg.VectorUDT"),
    ("org.apache.spark.ml.linalg.MatrixUDT", "pyspark.ml.linalg.MatrixUDT"),
}


def struct_of(row: object, where: str) -> Any:
    """Return the StructType of a schema as Spark's JSON has it; where names it in errors.

    Raises LedgerDamaged for anything that is not a schema, and for user-defined types that Spark does not bring."""
    from pyspark.sql import types as T

    try:
        found = T.StructType.fromJson(_struct(row))
    except Exception as exc:  # our exceptions, and any that PySpark raises for the name of a type
        raise LedgerDamaged(f"its schema cannot be read: {exc}", file=where) from None
    return found


def of_files(frame: Any) -> Any:
    """Return the StructType that data files tell of themselves, of a DataFrame that Spark made of them.

    Raises LedgerDamaged for unsafe or invalid schemas."""
    return struct_of(json_value(frame._jdf.schema().json()), "the data files")


def _struct(row: object) -> dict[str, Any]:
    if not isinstance(row, dict) or row.get("type") != "struct" or not isinstance(row.get("fields"), list):
        raise ValueError("it has no columns")
    return {"type": "struct", "fields": [_field(one) for one in row["fields"]]}


def _field(row: object) -> dict[str, Any]:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise ValueError("a column has no name")
    told = row.get("metadata") or {}
    metadata = {name: told[name] for name in METADATA if _is_text(told.get(name))} if isinstance(told, dict) else {}
    return {"name": row["name"], "type": _type(row.get("type")), "nullable": bool(row.get("nullable", True)),
            "metadata": metadata}  # fmt: skip


def _is_text(value: object) -> bool:
    """True for a text, and for texts by name."""
    if isinstance(value, Mapping):
        return all(isinstance(one, str) for one in value.values())
    return isinstance(value, str)


def _type(kind: object) -> object:
    if isinstance(kind, str):
        return kind
    tag = kind.get("type") if isinstance(kind, dict) else None
    if not isinstance(kind, dict) or not isinstance(tag, str):
        raise ValueError(f"{kind!r} is not a type")
    if tag == "struct":
        return _struct(kind)
    if tag == "array":
        return {
            "type": tag,
            "elementType": _type(kind.get("elementType")),
            "containsNull": bool(kind.get("containsNull", True)),
        }
    if tag == "map":
        key, value = _type(kind.get("keyType")), _type(kind.get("valueType"))
        nulls = bool(kind.get("valueContainsNull", True))
        return {"type": tag, "keyType": key, "valueType": value, "valueContainsNull": nulls}
    classes = kind.get("class"), kind.get("pyClass")
    if tag == "udt" and classes in CLASSES:
        return {"type": tag, "class": classes[0], "pyClass": classes[1], "sqlType": _type(kind.get("sqlType"))}
    raise ValueError(f"a column is of the user-defined type {classes[1] or classes[0]}, whose code a schema would load")
