"""TPC-DS: store_sales joined with its dimensions, at any scale factor, generated once and kept.

The generator comes from PyPI, with the extra `sparkbleach[evaluate]`. Below scale factor 1 there is a single
store, so that r4 and r5 repair nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from ..errors import ConfigError, SparkbleachError
from .sales import SCHEMA

_VERSION = 1  # of the file: another one when the query changes
# Row ids are the order in which the generator sells: the lines of a ticket are next to each other.
_STREAM = """
    SELECT ss.rowid AS id, i_brand, i_category, ca_state, ca_city, ca_zip, p_promo_name, s_store_name,
           c_email_address, ss.*
    FROM store_sales ss
    LEFT JOIN item ON ss_item_sk = i_item_sk
    LEFT JOIN customer ON ss_customer_sk = c_customer_sk
    LEFT JOIN customer_address ON ss_addr_sk = ca_address_sk
    LEFT JOIN promotion ON ss_promo_sk = p_promo_sk
    LEFT JOIN store ON ss_store_sk = s_store_sk
    ORDER BY ss.rowid
"""


def cached(scale_factor: float) -> Path:
    """Return where the stream of a scale factor is kept, below XDG_CACHE_HOME or ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "sparkbleach" / f"tpcds-sf{scale_factor:g}-v{_VERSION}.parquet"


def sales(
    scale_factor: float, n_tuples: int | None = None, columns: Sequence[str] = tuple(SCHEMA.names)
) -> pa.Table:
    """Return the first tuples of the clean stream, or all; by default with the columns of `sales.py`.

    It is generated the first time: scale factor 1 takes about a minute and gives 2.88 million tuples. Columns
    may be any of store_sales and its dimensions.
    """
    if scale_factor <= 0:
        raise ConfigError(f"scale factor: {scale_factor} is not above 0; 1 gives 2.88 million tuples")
    path = cached(scale_factor)
    if not path.exists():
        generate(scale_factor, path)
    stream = ds.dataset(path)
    names = list(columns)
    return stream.to_table(columns=names) if n_tuples is None else stream.head(n_tuples, columns=names)


def generate(scale_factor: float, path: Path) -> None:
    """Write the stream of a scale factor to a Parquet file."""
    extension = _extension()
    path.parent.mkdir(parents=True, exist_ok=True)
    # The database is a file, so that scale factors above the memory work.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="generating-") as directory:
        with duckdb.connect(str(Path(directory) / "tpcds.duckdb")) as connection:
            connection.load_extension(str(extension))
            connection.execute("SET enable_progress_bar = false")
            connection.execute("CALL dsdgen(sf = ?)", [scale_factor])
            part = Path(directory) / path.name
            connection.execute(f"COPY ({_STREAM}) TO '{part}' (FORMAT parquet, ROW_GROUP_SIZE 122880)")
        part.replace(path)


def _extension() -> Path:
    """Return the DuckDB extension that generates the data, for the installed version of DuckDB."""
    spec = find_spec("duckdb_extension_tpcds")
    root = Path(spec.origin).parent / "extensions" if spec and spec.origin else Path()
    extension = root / f"v{duckdb.__version__}" / "tpcds.duckdb_extension"
    if not extension.exists():
        raise SparkbleachError(
            f"TPC-DS: there is no generator for DuckDB {duckdb.__version__}; "
            "install sparkbleach[evaluate], or use the profile tiny, which generates a stream of its own"
        )
    return extension
