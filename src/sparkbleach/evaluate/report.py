"""The report: one HTML file with everything in it, made from the results in a directory."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1180px; margin: auto; padding: 1rem }
h1, h2 { line-height: 1.2 } h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1.5rem }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #e4e4e4; vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums } th.n { text-align: right }
figure { margin: 1.5rem 0 } figure img { max-width: 100%; height: auto }
figcaption, .method, .where, summary { color: #555; font-size: 14px }
.yes { color: #00664a; font-weight: 600 } .no { color: #b03a00; font-weight: 600 } .unknown { color: #666 }
code { background: #f3f3f3; padding: 0 .2em } summary { cursor: pointer } .scroll { overflow-x: auto }
"""
_INTRODUCTION = """
<p><b>sparkbleach</b> cleans data streams by rules. A rule such as <code>zipcode -&gt; city</code> says:
tuples that agree on the left side agree on the right side. A tuple that contradicts what was seen earlier
is repaired on the way, at once, to the value that most of the earlier tuples had; what was seen is
remembered within a sliding window. It implements <i>Bleach: A Distributed Stream Data Cleaning System</i>
(Tian, Michiardi, Vukolić), and this report repeats the experiments of that paper and adds some.</p>
<p>The <b>stream</b> is store sales joined with items, customers, addresses, promotions and stores. The
truth is known: errors are put into it on purpose, and a log says which. The <b>rules</b> of the paper: r0
item → brand, r1 item → category, r2 state and city → zip code, r3 promotion → its name, r4 store → its
name, r5 ticket → store name, r6 ticket → e-mail address, r7 customer → e-mail address. The <b>dirty
ratio</b> of a rule: of the tuples that the rule applies to as they arrived, the share whose right-hand cell
is not the true value.</p>
<p>The paper's own plots are not reproduced here; the numbers that it reports are drawn into our figures as
dashed lines, and stand in the tables beside what was measured.</p>
"""


def write_report(output: Path, order: Sequence[str]) -> Path:
    """Write `report.html` from all results in a directory, in an order of experiments; return its path."""
    found = {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in order
        if (path := output / "results" / f"{name}.json").exists()
    }
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>sparkbleach: the evaluation</title><style>{_STYLE}</style>",
        "<h1>sparkbleach: the evaluation</h1>",
        _INTRODUCTION,
        "<h2>What the paper says, what we wanted, what was measured</h2>",
        _warning(found),
        _all_claims(found),
        *(_section(name, result, output) for name, result in found.items()),
        "<h2>Where it was measured</h2>",
        _circumstances(found),
    ]
    path = output / "report.html"
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return path


def _warning(found: dict[str, Any]) -> str:
    tiny = [name for name, result in found.items() if result["circumstances"]["profile"].startswith("tiny")]
    if not tiny:
        return ""
    return (
        "<p class=no>Profile tiny, only to see that it works; streams are too short for the claims: "
        f"{', '.join(tiny)}.</p>"
    )


def _all_claims(found: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><a href='#{name}'>{html.escape(result['title'])}</a></td>{_claim(claim)}</tr>"
        for name, result in found.items()
        for claim in result["claims"]
    ]
    return _claim_table(rows, "<th>experiment")


def _claim_table(rows: Sequence[str], first: str = "") -> str:
    return (
        f"<div class=scroll><table><tr>{first}<th>who<th>says<th>measured<th>holds?</tr>"
        + "".join(rows)
        + "</table></div>"
    )


def _claim(claim: dict[str, Any]) -> str:
    word, kind = {True: ("yes", "yes"), False: ("no", "no"), None: ("cannot be said", "unknown")}[
        claim["holds"]
    ]
    source, says, measured = (html.escape(claim[part]) for part in ("source", "says", "measured"))
    return f"<td>{source}<td>{says}<td>{measured}<td class={kind}>{word}"


def _section(name: str, result: dict[str, Any], output: Path) -> str:
    parts = [
        f"<h2 id='{name}'>{html.escape(result['title'])}</h2>",
        f"<p>{html.escape(result['question'])}</p>",
        f"<p class=method>{html.escape(result['method'][:1].upper() + result['method'][1:])}</p>",
    ]
    for figure in result["figures"]:
        picture = base64.b64encode((output / "figures" / f"{figure['name']}.svg").read_bytes()).decode()
        caption = html.escape(figure["caption"])
        parts.append(
            f"<figure><img alt='{caption}' src='data:image/svg+xml;base64,{picture}'>"
            f"<figcaption>{caption}</figcaption></figure>"
        )
    parts.append(_claim_table([f"<tr>{_claim(claim)}</tr>" for claim in result["claims"]]))
    parts += [
        f"<details><summary>numbers: {html.escape(title)}</summary>"
        f"{_table(output / 'data' / f'{name}-{title}.parquet')}</details>"
        for title in result["shown"]
    ]
    names = ", ".join(f"<code>data/{name}-{title}.csv</code>" for title in result["tables"])
    about = result["circumstances"]
    parts.append(
        f"<p class=where>All numbers: {names}, and as Parquet. Profile {html.escape(about['profile'])}, "
        f"{html.escape(about['date'])}; <code>sparkbleach bench {name} --profile "
        f"{html.escape(about['profile'])}"
        "</code> repeats it.</p>"
    )
    return "\n".join(parts)


def _table(path: Path) -> str:
    table = pq.read_table(path)
    kinds = ["" if str(field.type) == "string" else " class=n" for field in table.schema]
    head = "".join(
        f"<th{kind}>{html.escape(name.replace('_', ' '))}"
        for name, kind in zip(table.column_names, kinds, strict=True)
    )
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{_cell(cell)}" for cell, kind in zip(row.values(), kinds, strict=True))
        for row in table.to_pylist()
    )
    return f"<div class=scroll><table><tr>{head}</tr>{rows}</table></div>"


def _cell(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        if cell == 0 or 1e-5 <= abs(cell) < 10:
            return f"{cell:.5f}".rstrip("0").rstrip(".")
        return f"{cell:,.1f}" if abs(cell) >= 10 else f"{cell:.1e}"
    return f"{cell:,}" if isinstance(cell, int) else html.escape(str(cell))


def _circumstances(found: dict[str, Any]) -> str:
    """Return machines and versions, each once."""
    seen = dict.fromkeys(
        (r["circumstances"]["machine"], r["circumstances"]["versions"]) for r in found.values()
    )
    return "".join(
        f"<p>{html.escape(machine)}.<br>{html.escape(versions)}.</p>" for machine, versions in seen
    )
